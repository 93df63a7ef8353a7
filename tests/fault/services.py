"""Faults of the services around a load: an S3 and a catalog that fail as they are told, between the load and the real
ones. What a load reads again itself afterwards goes to the real ones directly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.lake import Lake
from tests.services.faulty_http import FaultyHttp, Matches, Reply, Request
from tests.services.server import until

ALWAYS = 10_000


@dataclass(frozen=True)
class Network:
    """`env` leads a load through it."""

    s3: FaultyHttp
    catalog: FaultyHttp

    @property
    def env(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL_S3": self.s3.url,
            "PYICEBERG_CATALOG__DEFAULT__S3__ENDPOINT": self.s3.url,
            "PYICEBERG_CATALOG__DEFAULT__URI": self.catalog.url,
        }

    @property
    def hits(self) -> int:
        return self.s3.hits + self.catalog.hits

    @property
    def lease_is_stale(self) -> bool:
        """Whether a load could not tell its lease how far it came."""
        return any("/lease.json" in path for path in self.s3.hit)

    def clear(self) -> None:
        """No more faults; requests that were held go on to the service, and are answered, before this returns."""
        for one in (self.s3, self.catalog):
            one.clear()
            until(lambda one=one: one.under_way == 0, "requests are still under way")


@contextmanager
def running_network(stack: Any) -> Iterator[Network]:
    s3, catalog = FaultyHttp(stack.stack.s3_endpoint, signed=True), FaultyHttp(stack.stack.catalog_uri)
    with s3.running(), catalog.running():
        yield Network(s3, catalog)


def _s3(method: str, *parts: str) -> Callable[[Lake], Matches]:
    """Requests of one lake whose path has all of the parts."""

    def of(lake: Lake) -> Matches:
        def matches(request: Request) -> bool:
            path = request.path.partition("?")[0]
            return request.method == method and lake.name in path and all(part in path for part in parts)

        return matches

    return of


def _commit_of(namespace: str) -> Callable[[Lake], Matches]:
    """Commits to tables that are there, by the prefix of their namespace before the lake's name."""

    def of(lake: Lake) -> Matches:
        tables = f"/namespaces/{namespace}{lake.name}/tables/"
        return lambda request: request.method == "POST" and tables in request.path

    return of


def refusal(status: int, code: str) -> Reply:
    """An answer as S3 gives it."""
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>no</Message></Error>'
    return Reply(status, {"Content-Type": "application/xml"}, body.encode())


def trouble(status: int, kind: str) -> Reply:
    """An answer as a REST catalog gives it."""
    body = f'{{"error": {{"message": "no", "type": "{kind}", "code": {status}}}}}'
    return Reply(status, {"Content-Type": "application/json"}, body.encode())


_OBJECTS = _s3("GET", "/landing/")
_DATA = _s3("PUT", "/data/", ".parquet")
_BATCH_MANIFEST = _s3("PUT", "/state/", "/manifest.parquet")
_SNAPSHOT = _s3("PUT", "/metadata/", "snap-")
_LEASE = _s3("PUT", "/state/", "/lease.json")
_COMMIT = _commit_of("")
_LEDGER_COMMIT = _commit_of("ops_")
_BUSY = refusal(503, "SlowDown")
_BROKEN = refusal(500, "InternalError")
_EXPIRED = refusal(403, "ExpiredToken")


def _of_target(matches: Callable[[Lake], Matches]) -> Callable[[Lake], Matches]:
    """Those of them that are no ledger's."""
    return lambda lake: lambda request: matches(lake)(request) and f"ops_{lake.name}" not in request.path


def _but_the_first(matches: Matches) -> Matches:
    before = itertools.count()
    return lambda request: matches(request) and next(before) > 0


def _vanish(network: Network, lake: Lake) -> None:
    """The commit lands, its answer does not come, and from then on nobody answers."""
    network.catalog.lose(_COMMIT(lake))
    network.catalog.refuse(lambda _: network.catalog.hits > 0, times=ALWAYS)


SERVICE_FAULTS: Mapping[str, Callable[[Network, Lake], object]] = {
    "s3_500_once": lambda n, lake: n.s3.answer(_OBJECTS(lake), _BROKEN),
    "s3_503_reading": lambda n, lake: n.s3.answer(_OBJECTS(lake), _BUSY, times=ALWAYS),
    "s3_half_a_body_once": lambda n, lake: n.s3.halve(_OBJECTS(lake)),
    "s3_half_a_body": lambda n, lake: n.s3.halve(_OBJECTS(lake), times=ALWAYS),
    "s3_slow": lambda n, lake: n.s3.slow(_OBJECTS(lake), 0.3, times=ALWAYS),
    "s3_silent": lambda n, lake: n.s3.hold(_OBJECTS(lake), times=ALWAYS),
    "credentials_expire_reading": lambda n, lake: n.s3.answer(_OBJECTS(lake), _EXPIRED, times=ALWAYS),
    "credentials_expire_writing": lambda n, lake: n.s3.answer(_of_target(_DATA)(lake), _EXPIRED, times=ALWAYS),
    "s3_503_data_file_once": lambda n, lake: n.s3.answer(_of_target(_DATA)(lake), _BUSY),
    "s3_503_data_file": lambda n, lake: n.s3.answer(_of_target(_DATA)(lake), _BUSY, times=ALWAYS),
    "s3_503_batch_manifest": lambda n, lake: n.s3.answer(_BATCH_MANIFEST(lake), _BUSY, times=ALWAYS),
    "s3_loses_batch_manifest": lambda n, lake: n.s3.lose(_BATCH_MANIFEST(lake)),
    "s3_503_snapshot": lambda n, lake: n.s3.answer(_of_target(_SNAPSHOT)(lake), _BUSY, times=ALWAYS),
    "s3_503_lease": lambda n, lake: n.s3.answer(_but_the_first(_LEASE(lake)), _BUSY, times=ALWAYS),
    "catalog_down": lambda n, lake: n.catalog.refuse(lambda r: lake.name in r.path, times=ALWAYS),
    "catalog_refuses": lambda n, lake: n.catalog.answer(_COMMIT(lake), trouble(503, "Unavailable"), times=ALWAYS),
    "catalog_500_before": lambda n, lake: n.catalog.answer(_COMMIT(lake), trouble(500, "Internal")),
    "catalog_500_after": lambda n, lake: n.catalog.answer(_COMMIT(lake), trouble(500, "Internal"), executed=True),
    "catalog_cut_before": lambda n, lake: n.catalog.refuse(_COMMIT(lake)),
    "catalog_cut_after": lambda n, lake: n.catalog.lose(_COMMIT(lake)),
    "catalog_cut_in_answer": lambda n, lake: n.catalog.halve(_COMMIT(lake)),
    "catalog_timeout_before": lambda n, lake: n.catalog.hold(_COMMIT(lake)),
    "catalog_timeout_after": lambda n, lake: n.catalog.mute(_COMMIT(lake)),
    "catalog_vanishes": _vanish,
    "ledger_refused": lambda n, lake: n.catalog.answer(_LEDGER_COMMIT(lake), trouble(503, "Unavailable"), times=ALWAYS),
    "ledger_cut_after": lambda n, lake: n.catalog.lose(_LEDGER_COMMIT(lake)),
}
"""What each does to a network, by its name in the matrix."""
