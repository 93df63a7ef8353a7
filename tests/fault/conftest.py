"""What the cells of the kill matrix share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fault.cell import Bench
from tests.fault.forked import forks
from tests.fault.services import running_network
from tests.fault.tables import Undisturbed


@pytest.fixture(scope="session")
def bench(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("matrix")
    with forks() as started, running_network(stack) as network:
        yield Bench(stack, folder, started, network, Undisturbed(stack, folder))
