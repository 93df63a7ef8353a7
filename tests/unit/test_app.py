"""How a process ends when a command does not: with a code and a line, never with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from lakehouse.cli import app as command_line
from lakehouse.errors import ConfigurationError, Unavailable, UsageError
from lakehouse.redaction import remember
from lakehouse.services import state_address
from lakehouse.settings import read_settings


class Panic(BaseException):
    """As pyo3's PanicException: no Exception."""


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def app(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(command_line, "app", app)


def test_a_panic_is_a_bug_whose_details_hold_no_secret(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    remember(["s3cr3tvalue"])
    monkeypatch.setattr(command_line.tempfile, "gettempdir", lambda: str(tmp_path))
    _raising(monkeypatch, Panic("invalid port of s3cr3tvalue"))
    with pytest.raises(SystemExit) as ended:
        command_line.main(["diagnose"])
    err = capfd.readouterr().err
    assert ended.value.code == 70
    assert err.startswith("error: a bug of lakehouse: Panic: details in ") and err.count("\n") == 1
    text = Path(err.rsplit(" ", 1)[1].strip()).read_text()
    assert "invalid port of ***" in text and "s3cr3t" not in text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, GeneratorExit])
def test_what_ends_a_process_passes(monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]) -> None:
    _raising(monkeypatch, stop())
    with pytest.raises(stop):
        command_line.main(["diagnose"])


EMPTY = [
    ["diagnose", ""],
    ["diagnose", " "],
    ["status", ""],
    ["doctor", ""],
    ["load", ""],
    ["load", "a.b", "--mode", "no-advance", "--from-batch", ""],
    ["check", ""],
    ["gate", "accept", "", "max_rejected_ratio", "--reason", "x"],
    ["rejects", "show", "a.b", "--batch", ""],
    ["bookmark", "rewind", "a.b", "--to-batch", "", "--reason", "x"],
    ["bookmark", "diff", "a.b", "", "2"],
    ["explain", "s3://a/b", "--table", ""],
]


@pytest.mark.parametrize("arguments", EMPTY, ids=" ".join)
def test_an_empty_name_means_neither_all_nor_any(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    assert ended.value.code == 2
    assert capfd.readouterr().err == "error: the name of a table or batch is empty\nnext:  lakehouse status\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_behind_standard_output_is_named(options: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "lakehouse", "validate", *options],
            env={**os.environ, "LAKEHOUSE_ASSETS": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: standard output: No space left on device\nnext:  make room")


@pytest.mark.parametrize("target", ["nowhere/x.prom", ""])
def test_a_textfile_that_cannot_be_written_is_named(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "defs").mkdir()
    monkeypatch.setenv("LAKEHOUSE_ASSETS", str(tmp_path / "defs"))
    with pytest.raises(SystemExit) as ended:
        command_line.main(["metrics", "--textfile", str(tmp_path / target)])
    err = capfd.readouterr().err
    assert ended.value.code == 2
    assert err.startswith(f"error: --textfile {tmp_path / target}: ")
    assert "\nnext:  lakehouse metrics --textfile FILE" in err


@pytest.mark.parametrize(
    ("arguments", "error", "command"),
    [
        (["maintain", "x", "bogus"], "Invalid value for '[compact|expire|orphans|dedupe]': 'bogus' is not", "maintain"),
        (["bookmark", "rewind"], "Missing argument 'TABLE'.", "bookmark rewind"),
    ],
)
def test_a_wrong_argument_leads_to_the_help_of_its_command(
    arguments: list[str], error: str, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    err = capfd.readouterr().err
    assert ended.value.code == 2
    assert err.startswith(f"error: {error}") and err.endswith(f"\nnext:  lakehouse {command} --help\n")


@pytest.mark.parametrize(
    ("variable", "value", "step"),
    [
        ("LAKEHOUSE_MEMORY", "much", "export LAKEHOUSE_MEMORY=8GB"),
        ("LAKEHOUSE_OPS_NAMESPACE", "a b", "export LAKEHOUSE_OPS_NAMESPACE=lakehouse_ops"),
    ],
)
def test_a_wrong_setting_is_named_with_one_that_is_right(variable: str, value: str, step: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_settings({variable: value})
    assert refused.value.message.startswith(f"{variable}: ") and repr(value) in refused.value.message
    assert refused.value.next == step


@pytest.mark.parametrize("value", ["bucket/folder", "s3://", "s3:///folder", "file://folder"])
def test_a_state_that_is_no_address_is_named_with_one_that_is_right(value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        state_address(read_settings({"LAKEHOUSE_STATE": value}), InMemoryCatalog("x"))
    assert refused.value.message.startswith("LAKEHOUSE_STATE: ") and value in refused.value.message
    assert refused.value.next == "export LAKEHOUSE_STATE=s3://<bucket>/lakehouse"


def test_what_an_environment_lacks_is_looked_for_by_doctor() -> None:
    assert {kind("x").next for kind in (ConfigurationError, Unavailable)} == {"lakehouse doctor"}
    assert ConfigurationError("x", next="aws sso login").next == "aws sso login" and not UsageError("x").next
