"""The sentence: discover → plan → read → stage → gate → merge → publish → reconcile.

`ingest` is what the CLI, the Dagster asset and the tests call. It commits one batch after another until nothing planned
is left, and reports also when it fails. `plan_load` makes the same plan and executes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.acceptance import Question, accept, accept_all, is_first, open_question
from lakehouse.added import added_columns
from lakehouse.attempt import write_record
from lakehouse.batch import BatchResult, BatchTask, run_batch
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.batch_range import check_range, versions_between
from lakehouse.bulk import in_bulk
from lakehouse.delete_mark import check_delete_condition
from lakehouse.errors import (
    Conflict,
    Detached,
    Held,
    LakehouseError,
    ObjectChanged,
    OutcomeUnknown,
    RetryLater,
    Unaccepted,
)
from lakehouse.faults import fault_point
from lakehouse.interruption import Interrupted, interrupted, interruption
from lakehouse.landing import discover
from lakehouse.lease import Lease, table_lease
from lakehouse.lease_record import LeaseHolder, LoadFailure
from lakehouse.ledger import standing_of, sync
from lakehouse.load_command import load_command
from lakehouse.model import Decision, LandingObject, Mode, Plan, Receipt, State, VersionRange, Window
from lakehouse.placement import Places
from lakehouse.plan import make_plan
from lakehouse.position import Position, find_position, take_position
from lakehouse.process import this_process
from lakehouse.receipt import ReceiptBuilder, batch_line, failed_receipt, plan_line
from lakehouse.receipt_total import total
from lakehouse.refuse import refuse
from lakehouse.services import Progress, Services
from lakehouse.stopping import noticing_stops, raise_if_stopped, stops_first
from lakehouse.storage import Storage, open_root
from lakehouse.target import Target, foreign_since_bookmark, summary
from lakehouse.transform import check_sql

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

MOST_TRIES = 4
"""How often a load plans again when others commit first or objects change under it."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What a user asks for. `scheduled` runs are also compared with earlier dates (gate `row_count_change`).

    `from_batch` and `to_batch` (G5-G7) are batch ids or bookmark versions: what was read up to and including the first
    is left out, what was read after it up to and including the second is read. Only together, with mode no-advance.

    `accept_missing`: dates are replaced, and taken for complete, without consumed objects that are not listed any more.
    `accept_new`: a source without a bookmark, or with another folder than it had, is read from the beginning.
    """

    mode: Mode = Mode.INCREMENTAL
    window: Window = field(default_factory=Window)
    from_batch: str | None = None
    to_batch: str | None = None
    run_id: str = ""
    scheduled: bool = False
    accept_missing: bool = False
    accept_new: bool = False


def ingest(declaration: Declaration, request: LoadRequest, services: Services) -> Receipt:
    """Load everything that is planned, one source after another under the table's lease; a source that fails holds none
    of the others back. Errors of the tree are told by the receipt; raises bugs only, and Interrupted on Ctrl-C."""
    watch = Stopwatch(services.clock)
    parts: list[Receipt] = []
    try:
        _check(declaration, request)
        with noticing_stops(), _lease(declaration, request, services) as lease:
            fault_point("after_lease")
            for one in declaration.by_source:
                parts.append(_ingest(one, request, services, watch=watch, lease=lease))
                watch = Stopwatch(services.clock)
    except LakehouseError as error:
        left = declaration.by_source[len(parts) :]
        parts += [failed_receipt(one, request.run_id, error, watch.seconds()) for one in left]
    except KeyboardInterrupt as stop:
        raise interrupted(declaration, request.run_id, stop, ended=parts, seconds=watch.seconds()) from stop
    return total(declaration, parts)


def _ingest(
    declaration: Declaration, request: LoadRequest, services: Services, *, watch: Stopwatch, lease: Lease
) -> Receipt:
    """Load one source."""
    builder = ReceiptBuilder(declaration, request.run_id)
    step, told = "read", True
    try:
        _Load(declaration, request, services, watch=watch, builder=builder, lease=lease).run()
    except LakehouseError as error:
        builder.raised(error)
        step = watch.current
        told = not isinstance(error, (Detached, Held, Unaccepted))  # whoever looks at the table sees those
    except KeyboardInterrupt as stop:
        builder.raised(interruption(declaration.table, lease.record.holder.step))
        raise Interrupted(builder.build(watch.seconds())) from stop
    receipt = builder.build(watch.seconds())
    unfinished = receipt.state is not State.COMMITTED or receipt.exit_code == RetryLater.exit_code
    if told and receipt.exit_code and unfinished:
        lease.update(failure=LoadFailure(receipt.context, step, receipt.error, receipt.exit_code, receipt.next))
    return receipt


def plan_load(declaration: Declaration, request: LoadRequest, services: Services) -> Plan:
    """The plan of one source that `ingest` would execute now. Writes nothing."""
    _check(declaration, request)
    now, places = services.now(), Places(declaration.source)
    with in_bulk(), ThreadPoolExecutor(1, thread_name_prefix="position") as beside:
        found = beside.submit(find_position, declaration, services)
        listing = _discover(open_root(declaration.source.uri, services.env), declaration, request, places)
        position = found.result()
        versions = _versions(declaration, request, position, services)
        question = None if request.accept_new else open_question(declaration, position, services)
        plan = _plan(
            declaration,
            request,
            position,
            listing,
            places=places,
            now=now,
            since=None,
            versions=versions,
            question=question,
        )
    return replace(plan, warnings=(*plan.warnings, *position.fit.told()))


class _Load:
    """One load under its lease."""

    def __init__(
        self,
        declaration: Declaration,
        request: LoadRequest,
        services: Services,
        *,
        watch: Stopwatch,
        builder: ReceiptBuilder,
        lease: Lease,
    ) -> None:
        self._declaration = declaration
        self._request = request
        self._forward = services.progress
        self._services = replace(services, progress=self._tell)
        self._watch = watch
        self._builder = builder
        self._lease = lease
        self._step = ""
        self._landing = open_root(declaration.source.uri, services.env)
        self._places = Places(declaration.source)
        self._failed: set[str] = set()
        self._tries = 0

    def run(self) -> None:
        """List once, then plan and commit batch after batch on whatever the bookmark is by then."""
        listing, now, position = self._begin()
        since = position.bookmark.version
        versions = _versions(self._declaration, self._request, position, self._services)
        question = self._answered(position)
        while True:
            with self._watch.step("plan"):
                plan = _plan(
                    self._declaration,
                    self._request,
                    position,
                    listing,
                    places=self._places,
                    now=now,
                    since=since,
                    versions=versions,
                    failed=self._failed,
                    question=question,
                )
            self._builder.planned(plan)
            self._services.log("plan", plan_line(plan, self._request.run_id))
            refuse(plan, accept_missing=self._request.accept_missing)
            if not plan.batches:
                break
            fault_point("after_plan")
            result = self._run_batch(plan, position, now)
            self._builder.ended(result)
            if result.state is State.BLOCKED:
                break
            if result.changed or result.state is State.CONFLICT:
                self._try_again(result)
                listing, now = self._discover()
            with self._watch.step("plan"):
                position = take_position(self._declaration, self._services)
        self._finish(position.target)

    def _begin(self) -> tuple[Sequence[LandingObject], datetime, Position]:
        """List the objects and look up the bookmark at the same time: under the lease nobody moves it."""
        with ThreadPoolExecutor(1, thread_name_prefix="position") as beside:
            found = beside.submit(take_position, self._declaration, self._services)
            listing, now = self._discover()
            with self._watch.step("plan"):
                position = found.result()
                self._tell_of_others(position)
        return listing, now, position

    def _answered(self, position: Position) -> Question | None:
        """What nobody has answered. The first load of a table is an answer for every source that is declared by then,
        also for those that have nothing yet or fail."""
        with self._watch.step("plan"):
            if is_first(position):
                if len(self._declaration.contexts) > 1:
                    accept_all(self._declaration, position, self._services)
                return None
            question = open_question(self._declaration, position, self._services)
            if question is None or not self._request.accept_new:
                return question
            accept(self._declaration, position, question, self._services)
            return None

    def _tell(self, progress: Progress, *, batch_id: str | None = None) -> None:
        """Progress goes to whoever watches; a new step also into the lease, where `status` and a crash leave it."""
        self._forward(progress)
        raise_if_stopped()
        if progress.step != self._step:
            before = None if self._step else ""  # what stands there at first is of another source
            self._step = progress.step
            self._lease.update(
                step=progress.step,
                context=self._declaration.context,
                batch_id=before if batch_id is None else batch_id,
                attempt_id=before,
            )

    def _discover(self) -> tuple[Sequence[LandingObject], datetime]:
        with self._watch.step("plan"):
            self._services.progress(Progress("discover", 0, 0, 0))
            now = self._services.now()
            return _discover(self._landing, self._declaration, self._request, self._places), now

    def _run_batch(self, plan: Plan, position: Position, now: datetime) -> BatchResult:
        task = BatchTask(
            declaration=self._declaration,
            position=position,
            plan=plan,
            objects=plan.batches[0],
            batch_id=plan.batch_id,
            attempt_id=self._services.new_id(),
            run_id=self._request.run_id,
            mode=self._request.mode,
            scheduled=self._request.scheduled,
            now=now,
            command=load_command(self._declaration, self._request),
        )
        self._step = "stage"
        self._lease.update(step=self._step, batch_id=task.batch_id, attempt_id=task.attempt_id)
        try:
            with stops_first():
                result = run_batch(task, landing=self._landing, services=self._services, watch=self._watch)
        except LakehouseError as error:
            state = State.UNKNOWN if isinstance(error, OutcomeUnknown) else State.FAILED
            self._record(task, error.message, state, exit_code=error.exit_code, next_step=error.next)
            raise
        except Exception as error:
            # what it says may quote values
            text = " ".join(["a bug of lakehouse:", type(error).__name__, *getattr(error, "__notes__", ())])
            self._record(task, text, State.FAILED, exit_code=LakehouseError.exit_code)
            raise
        self._services.log("batch", batch_line(result))
        self._failed |= {item.object.uri for item, _ in result.failed}
        self._failed |= {item.object.uri for item in task.objects if item.landing_date in result.withheld}
        return result

    def _tell_of_others(self, position: Position) -> None:
        for text in position.fit.told():
            self._builder.warn(text)
        if found := foreign_since_bookmark(position.target):
            self._builder.warn(
                f"{len(found)} snapshots of other writers since the last batch, the newest is {found[0]}: "
                f"lakehouse reconcile {self._declaration.table}"
            )

    def _try_again(self, result: BatchResult) -> None:
        self._tries += 1
        if self._tries < MOST_TRIES:
            return
        command = f"lakehouse load {self._declaration.table}"
        if result.changed:
            uri = result.changed[0]
            raise ObjectChanged(f"an object is overwritten again and again: uri={uri}", uri=uri, next=command)
        raise Conflict(
            f"table {self._declaration.table}: others committed first {self._tries} times in a row", next=command
        )

    def _finish(self, target: Target) -> None:
        """Bring the ledger up and take what the receipt says of the table, as the last plan saw it after every commit.

        The load has succeeded before: a ledger that cannot be written is behind, and no failure of the load.
        """
        with self._watch.step("ledger"):
            self._lease.settled(self._declaration.context)
            last = summary(target.tag).get(naming.BATCH_ID) if target.tag else None
            self._tell(Progress("ledger", 0, 0, 0), batch_id=self._lease.record.holder.batch_id or last)
            self._builder.stands_at(
                snapshot_id=target.tag.snapshot_id if target.tag else None,
                table_rows=target.rows,
                added_columns=added_columns(self._declaration, target.table),
            )
            try:
                sync(standing_of(target), self._services)
            except LakehouseError as error:
                self._builder.ledger_behind(error)

    def _record(self, task: BatchTask, error: str, state: State, *, exit_code: int, next_step: str = "") -> None:
        """Leave evidence of an attempt that raised; if even that fails, the error itself is what counts."""
        root = naming.incarnation_root(self._services.catalog_name, task.declaration.table, task.position.target.uuid)
        record = task.record(state=state, step=self._watch.current, error=error, ended_at=self._services.now())
        with suppress(LakehouseError):
            write_record(self._services.state, root, replace(record, exit_code=exit_code, next=next_step))


def _discover(
    landing: Storage, declaration: Declaration, request: LoadRequest, places: Places
) -> Sequence[LandingObject]:
    with in_bulk():
        return discover(landing, declaration.source, request.window, told=places.note)


def _plan(
    declaration: Declaration,
    request: LoadRequest,
    position: Position,
    listing: Sequence[LandingObject],
    *,
    places: Places,
    now: datetime,
    since: int | None,
    versions: VersionRange | None,
    failed: Collection[str] = (),
    question: Question | None = None,
) -> Plan:
    with in_bulk():
        plan = make_plan(
            declaration=declaration,
            bookmark=position.bookmark,
            listing=listing,
            mode=request.mode,
            window=request.window,
            table_uuid=position.target.uuid,
            now=now,
            since=since,
            versions=versions,
            failed=failed,
            accept_missing=request.accept_missing,
            places=places,
        )
    if position.held is not None:
        plan = replace(plan, held=position.held.text)
    if question is None:
        return plan
    text = question.text(plan.count(Decision.PLANNED))
    return replace(plan, unaccepted=text, answer=question.next, warnings=(*plan.warnings, text))


def _check(declaration: Declaration, request: LoadRequest) -> None:
    """What is wrong before anything is looked at."""
    check_range(declaration, mode=request.mode, first=request.from_batch, last=request.to_batch)
    check_sql(declaration.by_source[0])
    check_delete_condition(declaration.by_source[0])


def _versions(
    declaration: Declaration, request: LoadRequest, position: Position, services: Services
) -> VersionRange | None:
    newest = position.target.bookmark
    return versions_between(declaration, newest, services, first=request.from_batch, last=request.to_batch)


def _lease(declaration: Declaration, request: LoadRequest, services: Services) -> AbstractContextManager[Lease]:
    command = load_command(declaration, request)
    holder = LeaseHolder(run_id=request.run_id, process=this_process(), step="plan", command=command)
    return table_lease(declaration.table, holder, services)
