"""How a process ends when a command does not: with a code and a line, never with a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.cli import app as command_line
from lakehouse.redaction import remember


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
