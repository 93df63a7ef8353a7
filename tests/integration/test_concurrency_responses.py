"""The network between the load and its catalog fails at the commit: published exactly once, or not and said so."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from lakehouse.ledger import BATCHES
from lakehouse.model import State
from tests.catalogs import CatalogLake, CatalogStack, glue_stack, postgres_stack, rest_stack, through_relay
from tests.lake import DAY_1, DAY_2, Lake, csv, order
from tests.racer import Racer, Task
from tests.services.faulty_http import FaultyHttp, Request
from tests.services.faulty_tcp import FaultyPostgres
from tests.services.glue import is_glue_call
from tests.services.postgres import OWNER
from tests.services.server import until

BEFORE = {1: "1.00", 2: "1.00"}
AFTER = {1: "5.00", 2: "1.00", 7: "5.00"}
COMMIT_IN_POSTGRES = "UPDATE iceberg_tables"


@dataclass
class Network:
    """A lake whose catalog is reached through a network that fails; `direct` does not go through it."""

    lake: Lake
    direct: Lake
    faults: FaultyHttp | FaultyPostgres

    def commits_target(self, request: Request) -> bool:
        if is_glue_call(request, "UpdateTable"):
            return self.lake.name.encode() in request.body
        return request.method == "POST" and request.path.endswith(f"/namespaces/{self.lake.name}/tables/orders")

    def fail(self, kind: str, *, times: int = 1) -> None:
        if isinstance(self.faults, FaultyPostgres):
            getattr(self.faults, kind)(COMMIT_IN_POSTGRES)
        else:
            getattr(self.faults, kind)(self.commits_target, times=times)


def network(stack: CatalogStack, direct: CatalogStack, faults: FaultyHttp | FaultyPostgres, folder: Path) -> Network:
    """Both lakes are the same table; keys 1 and 2 are in it, 1 is updated and 7 inserted by the next load."""
    lake = CatalogLake(stack, folder)
    other = CatalogLake(direct, folder, name=lake.name)
    land(other)
    return Network(lake, other, faults)


def land(lake: Lake) -> None:
    lake.put(DAY_1, "base.csv", csv(order(1), order(2)))
    assert lake.load().state is State.COMMITTED
    lake.put(DAY_1, "next.csv", csv(order(1, "5.00", 5), order(7, "5.00", 5)))


@pytest.fixture
def rest(stack: Any, tmp_path: Path) -> Iterator[Network]:
    direct = rest_stack(stack)
    with FaultyHttp(stack.stack.catalog_uri).running() as proxy:
        yield network(direct.through(proxy.url), direct, proxy, tmp_path)
        proxy.clear()


@pytest.fixture
def postgres_network(stack: Any, postgres: int, tmp_path: Path) -> Iterator[Network]:
    direct = postgres_stack(stack, postgres)
    with FaultyPostgres(postgres).running() as relay:
        yield network(through_relay(direct, relay), direct, relay, tmp_path)


@pytest.fixture
def glue_network(stack: Any, glue: FaultyHttp, tmp_path: Path) -> Iterator[Network]:
    direct = glue_stack(stack, glue)
    impatient = CatalogStack(direct.real, "glue", {**direct.properties, "glue.max-retries": "1"})
    yield network(impatient, direct, glue, tmp_path)
    glue.clear()


@pytest.fixture(params=["rest", "postgres_network", "glue_network"])
def faulty(request: pytest.FixtureRequest) -> Network:
    found: Network = request.getfixturevalue(request.param)
    return found


def check_published_once(network: Network, *, version: int = 2) -> None:
    lake = network.direct
    assert lake.amounts() == AFTER
    assert (lake.version(), lake.snapshots(), len(lake.ledger(BATCHES))) == (version, version, version)
    assert lake.load().state is State.NOTHING_TO_DO
    assert lake.differences() == []


def test_m04_a_commit_whose_answer_is_lost_was_published_once(faulty: Network) -> None:
    """Glue's client asks again by itself and is told of a conflict, with its own first request."""
    faulty.fail("lose")
    receipt = faulty.lake.load()
    assert faulty.faults.hits == 1
    assert (receipt.state, receipt.exit_code, receipt.bookmark_version) == (State.COMMITTED, 0, 2), receipt.error
    check_published_once(faulty)


def test_m04_a_commit_that_never_arrives_is_unknown_and_the_next_load_publishes(faulty: Network) -> None:
    """From here it looks like the case above; only that nothing moves in the table while the load waits."""
    faulty.fail("refuse", times=2)
    waits: list[float] = []
    receipt = faulty.lake.load(services=faulty.lake.services(pause=waits.append))
    assert faulty.faults.hits == (2 if faulty.lake.stack.kind == "glue" else 1)
    assert (receipt.state, receipt.exit_code) == (State.UNKNOWN, 4), receipt.error
    assert 20 < sum(waits) < 60
    assert faulty.direct.amounts() == BEFORE
    if isinstance(faulty.faults, FaultyHttp):
        faulty.faults.clear()
    assert faulty.lake.load().state is State.COMMITTED
    check_published_once(faulty)


@pytest.mark.chaos
def test_glues_client_sends_a_refused_commit_again(glue_network: Network) -> None:
    glue_network.fail("refuse")
    assert glue_network.lake.load().state is State.COMMITTED
    check_published_once(glue_network)


@pytest.fixture
def one_second(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Commits of the REST catalog are given up after a second; everything else keeps its time."""

    def shorten(services: Any) -> Any:
        commit = services.catalog.commit_table

        def commit_in_a_hurry(*rest: Any) -> Any:
            with monkeypatch.context() as hurry:
                hurry.setattr("lakehouse.iceberg.READ_SECONDS", 1.0)
                return commit(*rest)

        services.catalog.commit_table = commit_in_a_hurry
        return services

    yield shorten


def test_a_commit_that_lands_while_the_load_waits_is_found(rest: Network, one_second: Any) -> None:
    assert isinstance(rest.faults, FaultyHttp)
    gate = rest.faults.hold(rest.commits_target)

    def let_it_land(_: float) -> None:
        gate.set()
        until(lambda: rest.direct.snapshots() == 2, "the commit that was held does not land")

    receipt = rest.lake.load(services=one_second(rest.lake.services(pause=let_it_land)))
    assert (receipt.state, receipt.bookmark_version) == (State.COMMITTED, 2), receipt.error
    check_published_once(rest)


def test_a_commit_that_arrives_after_another_load_published_is_refused(
    rest: Network, one_second: Any, crew: Sequence[Racer]
) -> None:
    """The lost one is under way while the other publishes the same batch; it must not land on top of it."""
    assert isinstance(rest.faults, FaultyHttp)
    gate = rest.faults.hold(rest.commits_target)
    answered = threading.Event()
    forward = rest.faults._forward

    def forward_and_tell(request: Request) -> Any:
        reply = forward(request)
        if gate.is_set() and rest.commits_target(request):
            answered.set()
        return reply

    rest.faults._forward = forward_and_tell  # type: ignore[method-assign]

    def publish_elsewhere(_: float) -> None:
        crew[0].begin(Task(rest.direct.env, rest.direct.table, "other"))
        assert crew[0].result()["state"] == "committed"

    receipt = rest.lake.load(services=one_second(rest.lake.services(pause=publish_elsewhere)))
    assert receipt.state is State.NOTHING_TO_DO, receipt.error
    gate.set()
    assert answered.wait(30)
    check_published_once(rest)


def test_two_commits_between_look_and_compare_and_set_of_glue(glue_network: Network, crew: Sequence[Racer]) -> None:
    """Both loads saw the same table version; Glue takes the one that arrives first, the other matches again."""
    assert isinstance(glue_network.faults, FaultyHttp)
    lake = glue_network.lake
    lake.put(DAY_2, "other.csv", csv(order(1, "3.00", 3), order(7, "3.00", 3)))
    gate = glue_network.faults.hold(glue_network.commits_target)
    held = crew[0]
    held.begin(Task(lake.env, lake.table, "held", day=DAY_1.isoformat()))
    until(lambda: glue_network.faults.hits == 1, "the first commit does not arrive")
    assert glue_network.direct.load(day=DAY_2).state is State.COMMITTED
    gate.set()
    receipt = held.result()
    assert (receipt["state"], receipt["rows"]["updated"]) == ("committed", 2), receipt
    check_published_once(glue_network, version=3)


def test_a_row_that_another_session_locks_ends_in_bounded_time(
    stack: Any, postgres: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that somebody left open on the catalog's row: no load waits for it for ever."""
    lake = CatalogLake(postgres_stack(stack, postgres), tmp_path)
    land(lake)
    monkeypatch.setattr("lakehouse.catalog.READ_SECONDS", 0.5)
    other = psycopg2.connect(host="127.0.0.1", port=postgres, user=OWNER, dbname="postgres")
    try:
        with other.cursor() as cursor:
            cursor.execute("select 1 from iceberg_tables where table_namespace = %s for update", (lake.name,))
        receipt = lake.load(services=lake.services(pause=lambda _: None))
    finally:
        other.close()
    assert (receipt.exit_code, lake.version()) == (3, 1), receipt.error
    assert lake.load().state is State.COMMITTED
