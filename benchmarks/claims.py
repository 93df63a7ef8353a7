"""What is promised of each workload, and whether the measured figures keep it. Pure.

`must` decides the exit code where it binds: comparisons with others at full size alone, those of our loads with each
other from a tenth of it on. `aim` is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

from benchmarks.counting import ALLOWED
from benchmarks.discovery.sizes import LARGE, LISTING, PAGINATOR, PLAN, TICK
from benchmarks.peers import DUCKDB, PYICEBERG, SPARK_READ
from benchmarks.reading.sides import BOTO3, LANDED, LOCAL, OBSTORE, SNIFFED, TEXTS, TYPES, memory_of
from benchmarks.result import OURS, Result
from benchmarks.upkeep.sizes import (
    AFTER,
    AFTER_DEFAULT,
    COMPACTED,
    COMPACTION,
    NEVER,
    READERS,
    READS,
    SCAN,
    part,
)
from benchmarks.workload import FULL_ROWS, TENTH_ROWS, cases
from lakehouse.units import parse_bytes

FIRST, AGAIN, NOTHING = "first load", "again, mode full", "nothing unseen"
_GIB = 1 << 30
_MUCH_MEMORY = {True: 4.5, False: 1.0}
"""GiB that the load of `memory` may use, at full size (3 GB for the engine) and below it (512 MB)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One figure. `at_least`: more is better. `binding`: a missed `must` fails the run."""

    workload: str
    what: str
    value: float | None
    unit: str
    must: float | None = None
    aim: float | None = None
    at_least: bool = False
    binding: bool = True

    def keeps(self, bound: float | None) -> bool | None:
        """Whether the figure keeps a bound; None if there is no bound or no figure."""
        if bound is None or self.value is None:
            return None
        return self.value >= bound if self.at_least else self.value <= bound

    @property
    def missed(self) -> bool:
        return self.binding and self.keeps(self.must) is False

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        if self.must is None:
            return "reported"
        if self.keeps(self.must):
            return "pass, aim reached" if self.keeps(self.aim) else "pass"
        return "MISSED" if self.binding else "not required at this size"


def claims(result: Result, others: Mapping[str, Result]) -> tuple[Claim, ...]:
    """The claims of a workload; `others` are the results of this run by workload, for those that compare with them."""
    if result.workload in ("daily", "scatter", "wide"):
        return _against_peers(result)
    if result.workload == "scatter-late":
        ratio = result.ratio(OURS, DUCKDB.name)
        return (Claim(result.workload, f"ours / {DUCKDB.name}", ratio, "×"),)
    if result.workload == "memory":
        return _memory(result, others.get("daily"))
    return {
        "rerun-full": _again,
        "rerun-incremental": _nothing,
        "composite": _composite,
        "growth": partial(_growth, must=2.0, aim=1.3),
        "growth-random": _growth,
        "read-csv": _read_csv,
        "small-files": _small_files,
        "big-csv": _big_csv,
        "discovery": _discovery,
        "upkeep": _upkeep,
    }[result.workload](result)


def _against_peers(result: Result) -> tuple[Claim, ...]:
    name, full = result.workload, result.rows >= FULL_ROWS

    def slower(peer: str, must: float, aim: float | None = None) -> Claim:
        ratio = result.ratio(peer, OURS)
        return Claim(name, f"{peer} / ours", ratio, "×", must, aim, at_least=True, binding=full)

    duckdb = result.ratio(OURS, DUCKDB.name)
    beside = Claim(name, f"ours / {DUCKDB.name}", duckdb, "×", 2.5, 1.5 if name == "daily" else 1.2, binding=full)
    if name == "wide":
        return (slower(PYICEBERG.name, 10, 30),)
    pyiceberg = 60 if name == "daily" else 12
    return slower(PYICEBERG.name, pyiceberg), slower(SPARK_READ.name, 6), beside


def _again(result: Result) -> tuple[Claim, ...]:
    written = max(sum(run.details["files"].values()) for run in result.runs[AGAIN])
    return (
        Claim(result.workload, "data and delete files written", written, "files", 0),
        Claim(result.workload, "again / first load", result.ratio(AGAIN, FIRST), "×", 1.0, 0.6, binding=_large(result)),
    )


def _nothing(result: Result) -> tuple[Claim, ...]:
    beyond = sum(number for kind, number in result.requests.items() if kind not in ALLOWED)
    return (
        Claim(result.workload, "after start-up", result.seconds(NOTHING), "s", 1.0, 0.3, binding=_large(result)),
        Claim(result.workload, "requests for anything but listing, state, table metadata", beyond, "", 0),
    )


def _composite(result: Result) -> tuple[Claim, ...]:
    one, two = cases("composite", result.rows)
    return (Claim(result.workload, f"{two} / {one}", result.ratio(two, one), "×", 2.0, 1.3, binding=_large(result)),)


def _memory(result: Result, daily: Result | None) -> tuple[Claim, ...]:
    rss = max(run.rss_bytes for run in result.runs[OURS]) / _GIB
    mine, usual = result.seconds(OURS), daily.seconds(OURS) if daily else None
    times = None if mine is None or usual is None else mine / usual
    must = _MUCH_MEMORY[result.rows >= FULL_ROWS]
    return (
        Claim(result.workload, "peak resident memory", rss, "GiB", must, binding=_large(result)),
        Claim(result.workload, "time / daily", times, "×", 15, 10, binding=_large(result)),
    )


def _growth(result: Result, *, must: float | None = None, aim: float | None = None) -> tuple[Claim, ...]:
    small, *_, large = cases(result.workload, result.rows)
    ratio = result.ratio(large, small)
    return (Claim(result.workload, f"{large} / {small}", ratio, "×", must, aim, binding=_large(result)),)


def _read_csv(result: Result) -> tuple[Claim, ...]:
    full = result.rows >= FULL_ROWS
    beside = [
        Claim(result.workload, f"local file / {peer}", result.ratio(LOCAL, peer), "×", 2.0, 1.5, binding=full)
        for peer in (TEXTS, TYPES, SNIFFED)
    ]
    return *beside, Claim(result.workload, "file on S3 / local file", result.ratio(LANDED, LOCAL), "×")


def _small_files(result: Result) -> tuple[Claim, ...]:
    full = result.rows >= FULL_ROWS
    slower = result.ratio(BOTO3, LANDED)
    ours, bare = (result.seconds_behind_listing(who) for who in (LANDED, OBSTORE))
    times = None if ours is None or bare is None else ours / bare
    return (
        Claim(result.workload, f"{BOTO3} / ours", slower, "×", 5.0, 10.0, at_least=True, binding=full),
        Claim(result.workload, f"ours / {OBSTORE}, listing apart", times, "×", 2.0, 1.5, binding=full),
    )


def _big_csv(result: Result) -> tuple[Claim, ...]:
    return (_resident(result, OURS, memory_of(result.rows)),)


def _discovery(result: Result) -> tuple[Claim, ...]:
    large, listing = (max(run.rss_bytes for run in result.runs[part]) / _GIB for part in (LARGE, LISTING))
    cursor = max(run.checked["cursor bytes"] for run in result.runs[TICK])
    bound = _large(result)
    return (
        Claim(result.workload, f"{PLAN} / {PAGINATOR}", result.ratio(PLAN, PAGINATOR), "×", 1.5, 1.0, binding=bound),
        Claim(result.workload, LARGE, result.seconds(LARGE), "s", 3.0, 2.0, binding=bound),
        Claim(result.workload, f"{LARGE}: memory beyond the listing", large - listing, "GiB", 1.0, 0.3, binding=bound),
        Claim(result.workload, TICK, result.seconds(TICK), "s", 2.0, 1.5, binding=bound),
        Claim(result.workload, "the sensor's cursor", cursor, "bytes", 50_000),
    )


def _upkeep(result: Result) -> tuple[Claim, ...]:
    name, full = result.workload, result.rows >= FULL_ROWS
    found = []
    for reader, read in product(READERS, READS):
        whole, merged, default, compacted = (part(reader, read, s) for s in (NEVER, AFTER, AFTER_DEFAULT, COMPACTED))
        what, ratio = f"{reader}, {read}", result.ratio(compacted, whole)
        if read == SCAN:
            found.append(Claim(name, f"{what}: {COMPACTED} / {NEVER}", ratio, "×", 1.25, binding=full))
        else:  # some hundredths of a second: the compaction's manifests name what it removed, which a ratio overstates
            a, b = result.seconds(compacted), result.seconds(whole)
            more = None if a is None or b is None else a - b
            found.append(Claim(name, f"{what}: {COMPACTED} beyond {NEVER}", more, "s", 0.1, binding=full))
            found.append(Claim(name, f"{what}: {COMPACTED} / {NEVER}", ratio, "×"))
        found.append(Claim(name, f"{what}: {AFTER} / {COMPACTED}", result.ratio(merged, compacted), "×"))
        found.append(Claim(name, f"{what}: {AFTER_DEFAULT} / {NEVER}", result.ratio(default, whole), "×"))
    deletes = result.counts["batch"][f"delete files ({COMPACTED})"]
    memory = _resident(result, COMPACTION, memory_of(result.rows))
    return *found, Claim(name, f"delete files, {COMPACTED}", deletes, "", 0), memory


def _resident(result: Result, who: str, memory: str) -> Claim:
    """The peak of what was given so much memory for the engine: a GiB more at most."""
    rss = max(run.rss_bytes for run in result.runs[who]) / _GIB
    what = f"peak resident memory with LAKEHOUSE_MEMORY={memory}"
    return Claim(result.workload, what, rss, "GiB", parse_bytes(memory) / _GIB + 1, binding=_large(result))


def _large(result: Result) -> bool:
    return result.rows >= TENTH_ROWS
