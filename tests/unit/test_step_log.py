"""Structured lines: their forms, and who decides."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

import pytest

from lakehouse.errors import ConfigurationError
from lakehouse.step_log import open_log

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


def test_json_where_nobody_looks_and_text_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"table": "analytics.orders", "rows_read": 3}
    for env in ({}, {"LAKEHOUSE_LOG": "json"}):
        open_log(env, now=lambda: NOW)("step", values)
        told = json.loads(capsys.readouterr().err)
        assert told == {"timestamp": "2026-09-01T12:00:00.000+00:00", "level": "info", "event": "step", **values}
    open_log({"LAKEHOUSE_LOG": "text"}, now=lambda: NOW)("step", values)
    assert "step" in (text := capsys.readouterr().err) and "table=analytics.orders" in text and "{" not in text
    open_log({"LAKEHOUSE_LOG": "text"}, now=lambda: NOW)("step", {"context": "a\x1b[2J\nb"})
    assert (text := capsys.readouterr().err).count("\n") == 1 and "\x1b" not in text
    open_log({"LAKEHOUSE_LOG": "off"})("step", values)
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigurationError, match="unknown word 'yaml'"):
        open_log({"LAKEHOUSE_LOG": "yaml"})


def test_a_stream_that_is_closed_ends_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def isatty(self) -> bool:
            return False

        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    open_log({})("step", {})
