"""What the cells of the kill matrix share, and the matrix as a table at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fault.cell import Bench
from tests.fault.forked import forks
from tests.fault.record import matrix_lines, random_lines, read_reports, write_record
from tests.fault.services import running_network
from tests.fault.tables import Undisturbed


@pytest.fixture(scope="session")
def bench(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("matrix")
    with forks() as started, running_network(stack) as network:
        yield Bench(stack, folder, started, network, Undisturbed(stack, folder))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report
        for found in terminalreporter.stats.values()
        for report in found
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    cells, runs = read_reports(reports)
    for title, lines in (("kill matrix", matrix_lines(cells)), ("random fault runs", random_lines(runs))):
        if lines:
            terminalreporter.section(title)
            terminalreporter.write("\n".join(lines) + "\n")
    write_record(cells, runs)
