"""The checks of a table, each alone, so that CI can run it without a load.

What a check concludes is in `verdicts`; here it gets its plan, recount or gates, and its policy. A check whose
service does not answer fails its run instead of passing.

No `from __future__ import annotations` here: Dagster reads the annotations of the bodies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.declaration.checks import CheckName
from lakehouse.errors import DataError, LakehouseError
from lakehouse.model import Window
from lakehouse.orchestration.failure import fail_with
from lakehouse.orchestration.history import last_load
from lakehouse.orchestration.library import Library, silent
from lakehouse.orchestration.metadata import read_gates, read_snapshot_id
from lakehouse.orchestration.names import MAX_RETRIES, REFUSED, asset_key
from lakehouse.orchestration.partitions import RunContext, check_partitions, partition_keys, window_of
from lakehouse.orchestration.verdicts import (
    Verdict,
    all_sources_verdict,
    complete_verdict,
    counts_verdict,
    error_verdict,
    first_open_date,
    freshness_verdict,
    gates_verdict,
    keys_verdict,
    late_verdict,
)

if TYPE_CHECKING:
    from lakehouse.audit.recount import Recount
    from lakehouse.declaration import Declaration
    from lakehouse.model import Plan
    from lakehouse.services import Services


@dataclass(frozen=True, slots=True)
class Subject:
    """What one evaluation is about: the partitions of its run, all of the table if there are none."""

    declaration: "Declaration"
    library: Library
    context: RunContext
    keys: Sequence[str]

    @property
    def day(self) -> date | None:
        """The only date that is asked for; None for several or all."""
        return date.fromisoformat(self.keys[0]) if len(self.keys) == 1 else None

    def open(self) -> "Services":
        return self.library.open(self.declaration, silent)


_DESCRIPTIONS: Mapping[CheckName, str] = {
    "counts_reconcile": "Rows in the table, recounted by a scan, equal the rows that the published batches left there",
    "keys_unique": "Every key is in the table once, and none is NULL",
    "gates": "The gates of the last load passed",
    "objects_complete": "Every listed object is consumed, ignored or skipped by an operator: none is left",
    "late_arrivals": "No object came after the schedule had stopped looking at its date, none waits unseen behind it",
    "freshness": "The expected objects of a date are there in time",
}


def build_checks(declaration: "Declaration", library: Library) -> list[dg.AssetChecksDefinition]:
    """One definition per check, with the declared severity."""
    return [_build_check(declaration, library, name) for name in _EVALUATE]


def report_skipped_checks(declaration: "Declaration", library: Library) -> Callable[[dg.AssetExecutionContext], None]:
    """Evaluates, inside the asset, the checks of a run that yields no output: their own steps are skipped."""

    def report(context: dg.AssetExecutionContext) -> None:
        subject = _subject(declaration, library, context)
        selected = {key.name for key in _checks_of_run(context)}
        failed = [name for name in _EVALUATE if name in selected and not _report(subject, context, name)]
        blocking = [
            name for name in failed if declaration.checks[name].blocking and _severity(declaration, name) is _ERROR
        ]
        if blocking:
            _refuse_retries(context)
            raise dg.Failure(f"blocking checks failed: {', '.join(blocking)}", allow_retries=False)

    return report


_ERROR = dg.AssetCheckSeverity.ERROR


def _subject(declaration: "Declaration", library: Library, context: RunContext) -> Subject:
    """An unpartitioned check speaks of the whole table: else a good date would clear what a bad one showed (C07)."""
    keys = partition_keys(context) if check_partitions(declaration) else ()
    return Subject(declaration, library, context, keys)


def _build_check(declaration: "Declaration", library: Library, name: CheckName) -> dg.AssetChecksDefinition:
    policy = declaration.checks[name]

    @dg.asset_check(
        asset=asset_key(declaration),
        name=name,
        description=_DESCRIPTIONS[name],
        blocking=policy.blocking,
        partitions_def=check_partitions(declaration),
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        verdict = evaluate(name, _subject(declaration, library, context))
        severity = _severity(declaration, name)
        if not verdict.passed and policy.blocking and severity is _ERROR:
            _refuse_retries(context)
        return dg.AssetCheckResult(
            passed=verdict.passed, severity=severity, description=verdict.description, metadata=verdict.metadata
        )

    return check


def evaluate(name: CheckName, subject: Subject) -> Verdict:
    """The verdict of one check. An error of the data is a failed check, any other ends the run."""
    try:
        return _EVALUATE[name](subject)
    except DataError as error:
        return error_verdict(error)
    except LakehouseError as error:
        fail_with(subject.context, error)


def _of_sources(
    subject: Subject,
    services: "Services",
    window: Window | Callable[["Declaration"], Window],
    conclude: Callable[["Plan", "Declaration"], Verdict],
) -> Verdict:
    """What the plans of all sources say together: each must pass. `window` is what is listed, of all or of each."""
    found: list[tuple[str, Verdict]] = []
    for one in subject.declaration.by_source:
        try:
            listed = window if isinstance(window, Window) else window(one)
            found.append((one.context, conclude(_plan(subject, one, listed, services), one)))
        except DataError as error:
            found.append((one.context, error_verdict(error)))
    return all_sources_verdict(found)


def _counts(subject: Subject) -> Verdict:
    return counts_verdict(_recount(subject))


def _keys(subject: Subject) -> Verdict:
    return keys_verdict(_recount(subject))


def _gates(subject: Subject) -> Verdict:
    loads = [
        last_load(subject.context.instance, asset_key(subject.declaration), key) for key in subject.keys or (None,)
    ]
    known = [load for load in loads if load]
    gates = [gate for load in known for gate in read_gates(load.metadata)]
    return gates_verdict(gates, loaded=bool(known))


def _complete(subject: Subject) -> Verdict:
    window = window_of(subject.keys)
    return _of_sources(subject, subject.open(), window, lambda plan, _: complete_verdict(plan))


def _late(subject: Subject) -> Verdict:
    """A run of dates that the schedule looks at also looks behind them: nobody else would tell of what waits there."""
    services, window = subject.open(), window_of(subject.keys)
    now = services.now()

    def listed(one: "Declaration") -> Window:
        looks_back = window.last is None or window.last >= first_open_date(one, now=now)
        return Window() if looks_back else window

    return _of_sources(subject, services, listed, lambda plan, one: late_verdict(plan, one, now=now, window=window))


def _freshness(subject: Subject) -> Verdict:
    if subject.declaration.gates.expected_objects is None:
        return Verdict(True, "expected_objects is not declared")
    services = subject.open()
    now, window = services.now(), window_of(subject.keys)
    return _of_sources(
        subject, services, window, lambda plan, one: freshness_verdict(plan, one, day=subject.day, now=now)
    )


_EVALUATE: Mapping[CheckName, Callable[[Subject], Verdict]] = {
    "counts_reconcile": _counts,
    "keys_unique": _keys,
    "gates": _gates,
    "objects_complete": _complete,
    "late_arrivals": _late,
    "freshness": _freshness,
}


def _recount(subject: Subject) -> "Recount":
    """The table at the snapshot that this very run published, so that a load in between does not matter.

    A check that runs alone recounts what is there now: an older snapshot may have expired, and says less.
    """
    declaration = subject.declaration
    loads = [last_load(subject.context.instance, asset_key(declaration), key) for key in subject.keys or (None,)]
    own = [load for load in loads if load and load.run_id == subject.context.run.run_id]
    snapshot_id = read_snapshot_id(max(own, key=lambda load: load.order).metadata) if own else None
    return subject.library.recount(declaration, subject.open(), snapshot_id, subject.day)


def _plan(subject: Subject, declaration: "Declaration", window: Window, services: "Services") -> "Plan":
    from lakehouse.ingest import LoadRequest

    return subject.library.plan(declaration, LoadRequest(window=window), services)


def _report(subject: Subject, context: dg.AssetExecutionContext, name: CheckName) -> bool:
    """Record one evaluation from inside the asset."""
    verdict = evaluate(name, subject)
    context.log_event(
        dg.AssetCheckEvaluation(
            asset_key=context.asset_key,
            check_name=name,
            passed=verdict.passed,
            severity=_severity(subject.declaration, name),
            description=verdict.description,
            metadata=verdict.metadata,
            blocking=subject.declaration.checks[name].blocking,
            partition=subject.keys[0] if subject.keys else None,
        )
    )
    return verdict.passed


def _checks_of_run(context: dg.AssetExecutionContext) -> set[dg.AssetCheckKey]:
    graph = context.job_def.asset_layer.asset_graph
    return {key for key in graph.asset_check_keys if key.asset_key == context.asset_key}


def _severity(declaration: "Declaration", name: CheckName) -> dg.AssetCheckSeverity:
    return _ERROR if declaration.checks[name].severity == "error" else dg.AssetCheckSeverity.WARN


def _refuse_retries(context: RunContext) -> None:
    """Dagster would run everything again as a whole, and find the same (field case O11)."""
    context.instance.add_run_tags(context.run.run_id, {REFUSED: "true", MAX_RETRIES: "0"})
