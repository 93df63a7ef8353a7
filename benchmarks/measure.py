"""Measures a target: fills it once, then times every case on it, in turns with the peers. Shows and stores nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.claims import AGAIN, FIRST, NOTHING
from benchmarks.peers import BY_WORKLOAD, Environment, Peer
from benchmarks.result import OURS, Result, Run
from benchmarks.scenario import (
    Stage,
    count_requests,
    fill_ours,
    fill_peers,
    land_batch,
    land_target,
    start_over,
    time_again,
    time_floor,
    time_nothing,
    time_ours,
    time_peer,
)
from benchmarks.workload import Case, Target, cases

_WITH_FLOORS = ("daily", "scatter", "scatter-late", "wide", "memory")
_RERUNS = ("rerun-full", "rerun-incremental")


@dataclass(frozen=True, slots=True)
class Job:
    """What is measured of a case, for all workloads that use it."""

    case: Case
    peers: tuple[Peer, ...] = ()
    reruns: bool = False
    floors: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of a case."""

    counts: Mapping[str, Any]
    ours: list[Run] = field(default_factory=list)
    again: list[Run] = field(default_factory=list)
    nothing: list[Run] = field(default_factory=list)
    peers: dict[str, list[Run]] = field(default_factory=dict)
    floors: list[Mapping[str, float]] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often ours and quick peers are timed, and how often slow peers."""

    ours: int
    slow: int

    def of(self, peer: Peer) -> int:
        return self.slow if peer.slow else self.ours


def jobs(workloads: Iterable[str], rows: int, peer_kinds: Sequence[str]) -> dict[Target, list[Job]]:
    """The cases of the workloads by target, each once, in the order in which they are first needed."""
    found: dict[Case, Job] = {}
    for name in workloads:
        for case in cases(name, rows).values():
            known = found.get(case, Job(case))
            peers = tuple(peer for peer in BY_WORKLOAD.get(name, ()) if peer.kind in peer_kinds)
            found[case] = Job(
                case,
                peers=known.peers or peers,
                reruns=known.reruns or name in _RERUNS,
                floors=known.floors or name in _WITH_FLOORS,
            )
    targets: dict[Target, list[Job]] = {}
    for job in found.values():
        targets.setdefault(job.case.target, []).append(job)
    return targets


def measure_target(
    stage: Stage,
    todo: Sequence[Job],
    *,
    repeats: Repeats,
    environments: Mapping[str, Environment],
    say: Callable[[str], object],
) -> dict[Case, Measured]:
    """Prepare, time and check every job. Raises PartFailed if a part fails or a result is not the expected one."""
    about = stage.target.title
    say(f"{about}: making and landing {stage.target.rows:,} rows")
    land_target(stage)
    for table, case in {job.case.table: job.case for job in todo}.items():
        say(f"{about}: filling {table} of our own")
        fill_ours(stage, case)
    if any(peer.kind in environments for job in todo for peer in job.peers) and repeats.slow + repeats.ours:
        say(f"{about}: filling the table of the peers")
        fill_peers(stage)
    measured = {}
    for job in todo:
        say(f"{job.case.title}: making the file")
        found = Measured(land_batch(stage, job.case))
        for number in range(1, max(repeats.ours, repeats.slow) + 1):  # in turns: a noisy minute then hits all
            _measure_ours(stage, job, number, found=found, repeats=repeats, say=say)
            _measure_peers(stage, job, number, found=found, repeats=repeats, environments=environments, say=say)
        measured[job.case] = found
    return measured


def _measure_ours(
    stage: Stage, job: Job, number: int, *, found: Measured, repeats: Repeats, say: Callable[[str], object]
) -> None:
    if number > repeats.ours:
        return
    say(f"{job.case.title}: timing and checking our load {number} of {repeats.ours}")
    variables = start_over(stage, job.case, number)
    found.ours.append(time_ours(stage, job.case, variables))
    if job.reruns:
        found.again.append(time_again(stage, job.case, variables))
        found.nothing.append(time_nothing(stage, job.case, variables))
        if not found.requests:
            found.requests.update(count_requests(stage, job.case, variables))
    if job.floors:
        found.floors.append(time_floor(stage, job.case))


def _measure_peers(
    stage: Stage,
    job: Job,
    number: int,
    *,
    found: Measured,
    repeats: Repeats,
    environments: Mapping[str, Environment],
    say: Callable[[str], object],
) -> None:
    for peer in job.peers:
        if number <= repeats.of(peer) and peer.kind in environments:
            say(f"{job.case.title}: timing and checking {peer.name} {number} of {repeats.of(peer)}")
            run = time_peer(stage, job.case, peer, environments[peer.kind])
            found.peers.setdefault(peer.name, []).append(run)


def result_of(
    workload: str, rows: int, measured: Mapping[Case, Measured], *, skipped: Mapping[str, str]
) -> Result | None:
    """The result of a workload from the runs of its cases; None if one of them was not measured."""
    wanted = cases(workload, rows)
    if any(case not in measured for case in wanted.values()):
        return None
    first = measured[next(iter(wanted.values()))]
    missing = {peer.name: skipped[peer.kind] for peer in BY_WORKLOAD.get(workload, ()) if peer.kind in skipped}

    def result(runs: Mapping[str, Sequence[Run]], **more: Any) -> Result:
        ours = tuple(name for name in runs if name not in first.peers)
        return Result(workload, rows, first.counts, runs, ours, **more)

    if workload == "rerun-full":
        return result({AGAIN: first.again, FIRST: first.ours})
    if workload == "rerun-incremental":
        return result({NOTHING: first.nothing}, requests=first.requests)
    if len(wanted) > 1:
        return result({label: measured[case].ours for label, case in wanted.items()})
    peers = {peer.name: first.peers[peer.name] for peer in BY_WORKLOAD.get(workload, ()) if peer.name in first.peers}
    return result({OURS: first.ours, **peers}, floors=first.floors, skipped=missing)
