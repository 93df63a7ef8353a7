"""Measures the workload of discovery: lands the objects, makes the states, times each part in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
from obstore.store import S3Store

from benchmarks.discovery.sizes import LARGE, LISTING, PAGINATOR, PLAN, TICK, Sizes, declaration_text
from benchmarks.measure import Repeats
from benchmarks.result import Result, Run
from benchmarks.scenario import PartFailed, Stage, run_of
from benchmarks.workload import BUCKET, Target

_UPLOADS = 16


def measure_discovery(
    workload: str,
    rows: int,
    folder: Path,
    env: Mapping[str, str],
    *,
    repeats: Repeats,
    say: Callable[[str], object],
) -> Result:
    """The result of the workload. Raises PartFailed if a part fails or finds what is not expected."""
    sizes, stage = Sizes(rows), Stage(Target("orders", rows), folder, env)
    say(f"{workload}: landing {sizes.listed:,} objects")
    _land(sizes, env)
    for seen in (sizes.seen, sizes.many):
        say(f"{workload}: making a bookmark that has seen {seen:,} objects")
        _make(stage, sizes, seen)
    parts = {
        LISTING: ("list", sizes.seen),
        PAGINATOR: ("paginate", sizes.seen),
        PLAN: ("plan", sizes.seen),
        LARGE: ("plan", sizes.many),
        TICK: ("tick", sizes.seen),
    }
    runs: dict[str, list[Run]] = {part: [] for part in parts}
    for number in range(1, repeats.ours + 1):  # in turns: a noisy minute then hits all
        for part, (what, seen) in parts.items():
            say(f"{workload}: timing {part} {number}")
            os.sync()
            result, process_seconds = stage.call("discovery.ours", what, sizes.table(seen))
            _expect(part, result["found"], sizes)
            runs[part].append(run_of(result, process_seconds, checked=result["found"]))
    counts = {"batch": {"read": sizes.listed, "seen": sizes.seen, "seen of the large one": sizes.many}}
    return Result(workload, rows, counts, runs, ())


def _expect(part: str, found: Mapping[str, int], sizes: Sizes) -> None:
    """Raises PartFailed if a part has not found what there is."""
    right = found["dates asked for"] == 1 if part == TICK else found["listed"] == sizes.listed
    if part in (PLAN, LARGE):
        right = right and (found["planned"], found["consumed"]) == (sizes.per_date, sizes.listed - sizes.per_date)
    if not right:
        raise PartFailed(f"{part} has not found what there is: {found}")


def _make(stage: Stage, sizes: Sizes, seen: int) -> None:
    table = sizes.table(seen)
    path = stage.assets / table / "defs.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(declaration_text(table))
    stage.call("discovery.state", table, sizes.rows, seen)


def _land(sizes: Sizes, env: Mapping[str, str]) -> None:
    store = _bucket(env)
    with ThreadPoolExecutor(_UPLOADS) as pool:
        keys = (sizes.key(number) for number in range(sizes.listed))
        for _ in pool.map(lambda key: obstore.put(store, key, b"1\n", use_multipart=False), keys):
            pass


def _bucket(env: Mapping[str, str]) -> S3Store:
    return S3Store(
        BUCKET,
        config={
            "endpoint": env["AWS_ENDPOINT_URL_S3"],
            "region": env["AWS_REGION"],
            "access_key_id": env["AWS_ACCESS_KEY_ID"],
            "secret_access_key": env["AWS_SECRET_ACCESS_KEY"],
        },
        client_options={"allow_http": True},
    )
