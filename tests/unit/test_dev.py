"""What `make dev` refuses before it starts anything."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from lakehouse.dev import run_dev
from lakehouse.errors import ConfigurationError
from lakehouse.stack import free_ports, running_stack


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace.yaml").write_text("load_from: []\n")
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    return tmp_path


def test_taken_port_is_named_and_nothing_started(repository: Path) -> None:
    port = free_ports().s3
    handler = signal.getsignal(signal.SIGINT)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ConfigurationError, match=f"port={port}"):
        run_dev(repository / "dev", port)
    assert running_stack(repository / "dev/stack") is None
    assert signal.getsignal(signal.SIGINT) is handler


def test_dagster_settings_come_from_the_repository(repository: Path) -> None:
    port = free_ports().s3
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ConfigurationError):
        run_dev(repository / "dev", port)
    assert (repository / "dev/dagster/dagster.yaml").read_text() == (repository / "dagster.yaml").read_text()


def test_another_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"workspace\.yaml, dagster\.yaml"):
        run_dev(tmp_path / "dev", 3000)
    assert list(tmp_path.iterdir()) == []
