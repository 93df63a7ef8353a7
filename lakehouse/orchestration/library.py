"""What the definitions call of lakehouse, as one value: tests hand in others. Never knows Dagster.

DuckDB, PyIceberg and boto3 are imported when the first body runs, not when a code location loads: reading the
declarations is all that a code location needs, and it is loaded by every process that Dagster starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lakehouse.redaction import cleaned, remember, secrets_in

if TYPE_CHECKING:
    from lakehouse.audit.diagnosis import Diagnosis
    from lakehouse.audit.recount import Recount
    from lakehouse.declaration import Declaration
    from lakehouse.ingest import LoadRequest
    from lakehouse.maintain import Upkept
    from lakehouse.model import Plan, Receipt
    from lakehouse.services import Progress, Services


_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Library:
    """The functions behind the bodies. `open` raises LakehouseError, `ingest` never does, the others may."""

    open: Callable[[Declaration, Callable[[Progress], None]], Services]
    ingest: Callable[[Declaration, LoadRequest, Services], Receipt]
    plan: Callable[[Declaration, LoadRequest, Services], Plan]
    recount: Callable[[Declaration, Services, int | None, date | None], Recount]
    diagnose: Callable[[Declaration, Services], Sequence[Diagnosis]]
    maintain: Callable[[Declaration, Services, Sequence[str], str, bool], Mapping[str, Upkept]]


def installed_library() -> Library:
    """The real functions; services are opened anew by each body, from the environment that it runs in."""
    return Library(
        open=_without_secrets(_open),
        ingest=_without_secrets(_ingest),
        plan=_without_secrets(_plan),
        recount=_without_secrets(_recount),
        diagnose=_without_secrets(_diagnose),
        maintain=_without_secrets(_maintain),
    )


def _without_secrets(function: Callable[_Given, _Value]) -> Callable[_Given, _Value]:
    """What it raises shows no secret: Dagster stores the text of every error with those that led to it."""

    def call(*given: _Given.args, **named: _Given.kwargs) -> _Value:
        remember(secrets_in(os.environ))
        try:
            return function(*given, **named)
        except Exception as error:
            clean = cleaned(error)
            if clean is error:
                raise
            failure = clean
        raise failure

    return call


def silent(_: Progress) -> None:
    """Progress of work that is too short to be told."""


def _open(declaration: Declaration, progress: Callable[[Progress], None]) -> Services:
    from lakehouse.services import open_services
    from lakehouse.step_log import open_log

    return open_services(os.environ, catalog=declaration.catalog, progress=progress, log=open_log(os.environ))


def _ingest(declaration: Declaration, request: LoadRequest, services: Services) -> Receipt:
    from lakehouse.ingest import ingest

    return ingest(declaration, request, services)


def _plan(declaration: Declaration, request: LoadRequest, services: Services) -> Plan:
    from lakehouse.ingest import plan_load

    return plan_load(declaration, request, services)


def _recount(
    declaration: Declaration, services: Services, snapshot_id: int | None, landing_date: date | None
) -> Recount:
    from lakehouse.audit.recount import recount

    return recount(declaration, services, snapshot_id=snapshot_id, landing_date=landing_date)


def _diagnose(declaration: Declaration, services: Services) -> Sequence[Diagnosis]:
    from lakehouse.audit.diagnose import diagnose_source
    from lakehouse.audit.diagnosis import worst_first

    return worst_first([diagnose_source(one, services) for one in declaration.by_source])


def _maintain(
    declaration: Declaration, services: Services, kinds: Sequence[str], run_id: str, dry_run: bool
) -> Mapping[str, Upkept]:
    from lakehouse.maintain import Kind, maintain
    from lakehouse.operate.operator_change import Operator

    operator = Operator("dagster", "scheduled upkeep", run_id)
    done = maintain(declaration, services, operator, kinds=[Kind(kind) for kind in kinds], dry_run=dry_run)
    return {kind.value: found for kind, found in done.items()}
