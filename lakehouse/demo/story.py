"""Tells the demo: each step lands files, runs the job and shows what came of it in a table.

Loads run as Dagster runs of the assets, in this process; a load that is to crash runs in a process of its own, which is
really killed. Every step states what must have happened, and the demo fails if it did not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lakehouse.audit.recount import recount
from lakehouse.audit.status import rejected_rows
from lakehouse.declaration import Declaration, find_declaration
from lakehouse.demo import samples
from lakehouse.demo.runs import DagsterRuns, Ran
from lakehouse.demo.samples import DAY_1, DAY_2, DAY_3
from lakehouse.errors import CountsDiffer
from lakehouse.ingest import LoadRequest, plan_load
from lakehouse.ledger import FILES, LEDGERS, ledger_head, read_ledger, rebuild, standing_of
from lakehouse.model import Decision
from lakehouse.position import find_position
from lakehouse.services import open_services
from lakehouse.settings import assets_folder
from lakehouse.stack import conflicting_variables, free_ports, stack_environment, temporary_stack, without_home
from lakehouse.step_log import LOG_VARIABLE
from lakehouse.storage import open_storage

ORDERS, READINGS = "analytics.orders", "telemetry.readings"


def run_demo(console: Console) -> float:
    """Start the stack in a temporary folder, tell the story, stop everything; returns the seconds that it took.

    Raises CountsDiffer if a step did not do what it says, ConfigurationError if the stack cannot start.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lakehouse-demo-") as name:
        folder = Path(name)
        console.print("[bold]Starting S3 and the Iceberg REST catalog[/] (SeaweedFS, in a temporary folder)")
        with temporary_stack(folder / "stack", free_ports()) as stack:
            env = {**stack_environment(stack), **without_home(folder), "LAKEHOUSE_SPILL": str(folder)}
            env[LOG_VARIABLE] = os.environ.get(LOG_VARIABLE, "off")  # the story is told in tables
            with _environment(env, without=conflicting_variables(stack, os.environ)):
                _Story(console, folder).tell()
    console.print(f"\n[bold green]All green[/] in {time.monotonic() - started:.0f} s. Nothing is left running.")
    console.print("See it in the Dagster UI, with data of your own: [bold]make dev[/]")
    return time.monotonic() - started


@contextmanager
def _environment(values: Mapping[str, str], *, without: Sequence[str]) -> Iterator[None]:
    """Dagster bodies, boto3 and PyIceberg read the process's own environment."""
    before = dict(os.environ)
    for name in without:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class _Story:
    """The steps, in order; each one lands, loads, shows and expects."""

    def __init__(self, console: Console, folder: Path) -> None:
        self._console = console
        self._orders = self._declared(ORDERS)
        self._readings = self._declared(READINGS)
        self._services = open_services(catalog=self._orders.catalog)
        self._landing = open_storage("s3://landing/", os.environ)
        self._runs = DagsterRuns([self._orders, self._readings], folder / "dagster")
        self._number = 0

    def tell(self) -> None:
        self._days_by_partition()
        self._only_what_is_new()
        self._late_corrected_stale()
        self._rows_that_do_not_fit()
        self._overwritten()
        self._crash_before_publish()
        self._crash_after_publish()
        self._backfill()
        self._ledger_rebuilt()
        self._reconciled()

    def _days_by_partition(self) -> None:
        self._step("Two days land; each is loaded as a Dagster partition, two tables of different shape")
        self._land(samples.FIRST_TWO_DAYS)
        ran = [self._runs.load(d, day) for d in (self._orders, self._readings) for day in (DAY_1, DAY_2)]
        self._show(ran)
        self._expect("rows in both tables", [self._rows(self._orders), self._rows(self._readings)], [5, 3])

    def _only_what_is_new(self) -> None:
        self._step("A third day lands: the plan reads it and nothing else")
        self._land(samples.THIRD_DAY)
        plan = plan_load(self._orders, LoadRequest(), self._services)
        self._table(
            ["object", "decision", "reason"],
            [(d.object.uri, d.decision.value, d.reason) for d in plan.decisions],
        )
        self._expect("objects planned", plan.count(Decision.PLANNED), 1)
        self._show([self._runs.load(self._orders, DAY_3)])
        self._step("The same again: nothing to do, nothing written")
        ran = self._runs.load(self._orders, DAY_3)
        self._show([ran])
        self._expect("state", ran.state, "nothing_to_do")

    def _late_corrected_stale(self) -> None:
        self._step("A late file for the first day; a correction of an old order; an older version of a newer row")
        self._land(samples.LATE_FILE)
        late = self._runs.load(self._orders, DAY_1)
        self._land(samples.CORRECTION)
        corrected = self._runs.load(self._orders, DAY_3)
        self._land(samples.STALE)
        stale = self._runs.load(self._orders, DAY_2)
        self._show([late, corrected, stale])
        counts = [late.rows["inserted"], corrected.rows["updated"], stale.rows["stale"]]
        self._expect("inserted, updated, stale", counts, [1, 1, 1])
        self._expect("amount of order 1002", self._amount(1002), "30.50")

    def _rows_that_do_not_fit(self) -> None:
        self._step("A duplicate, a missing key and a bad amount: the good rows load, the others are listed")
        self._land(samples.DIRTY)
        ran = self._runs.load(self._orders, DAY_3)
        self._show([ran])
        rejects = rejected_rows(self._orders, self._services)
        self._table(
            ["file", "line", "column", "reason"], [(r.uri, r.line_number, r.column_name, r.reason) for r in rejects]
        )
        self._expect("superseded, rejected", [ran.rows["superseded"], ran.rows["rejected"]], [1, 2])

    def _overwritten(self) -> None:
        self._step("An object is overwritten, and later its old content comes back: read three times, right each time")
        self._land(samples.OVERWRITTEN)
        over = self._runs.load(self._orders, DAY_2)
        after = self._amount(1004)
        self._land(samples.OLD_CONTENT)
        back = self._runs.load(self._orders, DAY_2)
        self._show([over, back])
        self._expect("amounts of order 1004", [after, self._amount(1004)], ["101.00", "99.00"])

    def _crash_before_publish(self) -> None:
        self._step("kill -9 between staging and publishing: nothing of it is visible; the rerun loads it")
        before = (self._version(), self._rows(self._orders))
        self._land(samples.BEFORE_CRASH)
        self._killed_at("before_publish")
        self._expect("bookmark version and rows after the crash", (self._version(), self._rows(self._orders)), before)
        ran = self._runs.load(self._orders, DAY_3)
        self._show([ran])
        self._expect("inserted by the rerun", ran.rows["inserted"], 1)

    def _crash_after_publish(self) -> None:
        self._step(
            "kill -9 right after publishing: rows and bookmark are there, the ledger is behind; the next load mends it"
        )
        before = self._version()
        self._land(samples.BEFORE_SECOND_CRASH)
        self._killed_at("after_publish")
        self._expect("bookmark version, ledger version", (self._version(), self._ledger()), (before + 1, before))
        ran = self._runs.load(self._orders, DAY_3)
        self._show([ran])
        self._expect("bookmark version, ledger version", (self._version(), self._ledger()), (before + 1, before + 1))

    def _backfill(self) -> None:
        self._step(
            "A backfill of all days in full mode: everything is read again, no row changes, no data file is written"
        )
        ran = [self._runs.load(self._orders, day, mode="full") for day in (DAY_1, DAY_2, DAY_3)]
        self._show(ran)
        changed = [r.rows["inserted"] + r.rows["updated"] for r in ran]
        self._expect("rows changed, files written", [*changed, *(r.files_added for r in ran)], [0] * 6)

    def _ledger_rebuilt(self) -> None:
        self._step("The ledger tables are dropped and rebuilt from the batch manifests")
        before = self._ledger_rows()
        for name in LEDGERS:
            self._services.catalog.drop_table(f"{self._services.settings.ops_namespace}.{name}")
        for declaration in (self._orders, self._readings):
            rebuild(standing_of(find_position(declaration, self._services).target), self._services)
        plan = plan_load(self._orders, LoadRequest(), self._services)
        rows = read_ledger(
            self._services.catalog,
            self._services.settings.ops_namespace,
            FILES,
            table_uuid=find_position(self._orders, self._services).target.uuid,
        ).to_pylist()
        columns = ["bookmark_version", "uri", "decision", "rows_read", "rows_rejected", "rows_inserted", "rows_updated"]
        self._table(columns, [tuple(r[c] for c in columns) for r in rows])
        self._expect("ledger rows", self._ledger_rows(), before)
        self._expect("objects planned", plan.count(Decision.PLANNED), 0)

    def _reconciled(self) -> None:
        self._step("Reconciliation: source and target are counted again, equation by equation")
        for declaration in (self._orders, self._readings):
            result = recount(declaration, self._services, reread=True)
            self._table(
                ["holds", "equation", "date", "left", "right"],
                [(e.holds, e.name, e.landing_date, e.left, e.right) for e in result.equations],
                title=f"{declaration.table} at snapshot {result.snapshot_id}",
            )
            self._expect(
                f"{declaration.table}: equations that do not hold", [e for e in result.equations if not e.holds], []
            )
        checks = self._runs.checks(DAY_3)
        self._table(
            ["result", "table", "check", "what it saw"],
            [("ok" if c.passed else c.severity.lower(), c.asset, c.check, c.description) for c in checks],
            title=f"Dagster asset checks of {DAY_3} (late_arrivals warns: the demo lands old days today)",
        )
        self._expect("checks that failed", [c.check for c in checks if c.fails], [])

    def _step(self, title: str) -> None:
        self._number += 1
        self._console.print(f"\n[bold cyan]{self._number}. {title}[/]")

    def _declared(self, table: str) -> Declaration:
        return find_declaration(assets_folder(os.environ), table, os.environ)

    def _land(self, files: Mapping[str, bytes]) -> None:
        for key, data in files.items():
            self._landing.put(key, data)
            self._console.print(f"   landed s3://landing/{key}", style="dim", highlight=False)

    def _killed_at(self, point: str) -> None:
        """Load in a process that kills itself at a fault point, as `kill -9` or a lost node would."""
        env = {**os.environ, "LAKEHOUSE_FAULT": point}
        command = [sys.executable, "-m", "lakehouse", "load", ORDERS, "--json"]
        done = subprocess.run(command, env=env, capture_output=True, check=False)
        self._expect("the load was killed", done.returncode, -signal.SIGKILL)

    def _version(self) -> int:
        return find_position(self._orders, self._services).bookmark.version

    def _ledger(self) -> int:
        uuid = find_position(self._orders, self._services).target.uuid
        services = self._services
        return ledger_head(
            services.catalog, services.settings.ops_namespace, table_uuid=uuid, context=self._orders.context
        )

    def _ledger_rows(self) -> dict[str, int]:
        services = self._services
        found = {}
        for name in LEDGERS:
            for declaration in (self._orders, self._readings):
                uuid = find_position(declaration, services).target.uuid
                rows = read_ledger(services.catalog, services.settings.ops_namespace, name, table_uuid=uuid)
                found[f"{declaration.table} {name}"] = rows.num_rows
        return found

    def _rows(self, declaration: Declaration) -> int:
        return int(self._services.catalog.load_table(declaration.table).scan().count())

    def _amount(self, order_id: int) -> str:
        scan = self._services.catalog.load_table(ORDERS).scan(row_filter=f"order_id = {order_id}")
        return str(scan.to_arrow().column("amount")[0].as_py())

    def _show(self, ran: Sequence[Ran]) -> None:
        columns = [
            "table",
            "partition",
            "state",
            "bookmark",
            "read",
            "rejected",
            "superseded",
            "stale",
            "inserted",
            "updated",
            "unchanged",
        ]
        counted = columns[4:]
        self._table(
            columns,
            [(r.table, r.partition, r.state, r.bookmark_version, *(r.rows[c] for c in counted)) for r in ran],
        )

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
        table = Table(title=title or None, title_justify="left", header_style="bold")
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*("yes" if v is True else "NO" if v is False else "-" if v is None else str(v) for v in row))
        self._console.print(table)

    def _expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            raise CountsDiffer(f"demo, step {self._number}: {what}: expected {wanted}, found {found}")
        shown = "" if wanted == [] else f": {wanted}"
        self._console.print(f"   [green]✓[/] {what}{shown}", highlight=False)
