"""A state machine drives random loads and foreign commits against a plain model of the table (tests/merge_model.py).

Every load is a real one: objects are landed, planned, staged, merged and published into a local SQL catalog. After each
the receipt's counts, the table's rows as PyIceberg reads them, and the snapshot's own totals must be the model's. Long
runs (`-m chaos`) also read every table with DuckDB's iceberg extension.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Summary
from pyiceberg.transforms import IdentityTransform

from lakehouse.model import Mode, Receipt, State
from lakehouse.operate.bookmark_change import reset_bookmark, rewind_bookmark, set_bookmark
from lakehouse.operate.operator_change import Operator
from lakehouse.operate.rewind_table import rewind_with_table
from tests.local_lake import LocalLake, declare_text
from tests.merge_model import Deletes, Landed, Model, Order, Row, Rules
from tests.readers.canonical import canonical
from tests.readers.environment import Missing
from tests.readers.reader import DuckDBReader

START = datetime(2024, 1, 1, tzinfo=UTC)
OPERATOR = Operator("anna@host", "a test", "test")
DAYS = [date(2024, 1, 1) + timedelta(days=n) for n in range(3)]
ARROW = {
    "id": pa.int64(),
    "n": pa.float64(),
    "t": pa.timestamp("us", "UTC"),
    "d": pa.date32(),
    "op": pa.string(),
    "extra": pa.int32(),
}
MERGE_MODES = ("merge-on-read", "", "copy-on-write", "merge-on-read")
BASE: tuple[dict[str, Any], ...] = tuple(
    {"id": n, "n": float(n), "t": START, "d": date(2024, 1, 1 + n % 2), "op": None, "extra": None} for n in range(1, 7)
)


@dataclass(frozen=True)
class Setup:
    """One declaration of the machine, and what has changed of its schema since."""

    rules: Rules
    partition_by: str
    merge_mode: str
    value_name: str = "n"
    extra: str = ""

    @property
    def columns(self) -> dict[str, str]:
        """The table's name of each column of the model, as declared now."""
        extra = {"extra": "extra"} if self.extra else {}
        return {"id": "id", "n": self.value_name, "t": "t", "d": "d", "op": "op", **extra}

    @property
    def text(self) -> str:
        rules = self.rules
        columns = [
            "id: bigint",
            "n: double" if self.value_name == "n" else f"{self.value_name}: {{type: double, from: n}}",
            "t: timestamptz",
            "d: date",
            "op: string",
            *([f"extra: {self.extra}"] if self.extra else []),
        ]
        lines = [
            "table: analytics.orders",
            "source: {uri: s3://landing/orders, partition: input_date=%Y-%m-%d, format: {type: parquet}, "
            f"on_overwrite: {'retract' if rules.retract else 'keep'}}}",
            f"columns: {{{', '.join(columns)}}}",
            f"write: {rules.mode}",
            f"partition_by: {self.partition_by}",
            f"lineage: {str(rules.lineage).lower()}",
            "unknown_columns: ignore",
            "start_date: 2024-01-01",
        ]
        if rules.keyed:
            lines.append("key: [id]")
        if rules.order != "none":
            lines.append(f"order_by: {'[t]' if rules.order == 'column' else 'arrival'}")
        if rules.deletes != "none":
            lines += ["delete_when: \"op = 'D'\"", f"deletes: {rules.deletes}"]
        if rules.mode == "snapshot":
            lines.append("max_deleted_ratio: 1.0")
        if self.merge_mode:
            lines.append(f"table_properties: {{write.merge.mode: {self.merge_mode}}}")
        body = "\n".join(f"  {line}" for line in lines)
        return f"type: lakehouse.components.IcebergTable\nattributes:\n{body}\n"


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """Few keys, few order values, few contents: everything collides."""
    minute = draw(st.sampled_from([None, 0, 1, 2]))
    return {
        "id": draw(st.integers(1, 6)),
        "n": draw(st.sampled_from([None, 0.0, 1.0, float("nan")])),
        "t": None if minute is None else START + timedelta(minutes=minute),
        "d": draw(st.sampled_from([None, *DAYS[:2]])),
        "op": draw(st.sampled_from([None, "I", "I", "D"])),
        "extra": draw(st.sampled_from([None, 7])),
    }


@dataclass(frozen=True)
class Arrival:
    """An object to land; an earlier one of that name is overwritten. `late`: older than what landed before."""

    name: str
    day: date
    late: bool
    rows: tuple[dict[str, Any], ...]


ARRIVALS = st.lists(
    st.builds(
        Arrival,
        name=st.sampled_from("ab"),
        day=st.sampled_from(DAYS),
        late=st.booleans(),
        rows=st.lists(records(), min_size=2, max_size=6).map(tuple),
    ),
    min_size=1,
    max_size=2,
)


class MergeMachine(RuleBasedStateMachine):
    """Subclasses choose the write mode."""

    setups: st.SearchStrategy[Setup]
    duckdb: DuckDBReader | None = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.lake = LocalLake(Path(self.folder.name), with_ledger=self.duckdb is not None)
        self.landed: dict[str, Landed] = {}
        self.loads = 0
        self.foreign = False
        self.published: dict[int, list[str]] = {}
        self.before: dict[int, Model] = {}
        self.alone_since = 0

    @initialize(data=st.data(), arrivals=ARRIVALS)
    def first_load(self, data: st.DataObject, arrivals: list[Arrival]) -> None:
        """A table with a row of every key, so that files keep rows when others die."""
        self.setup = data.draw(self.setups)
        self.model = Model(self.setup.rules)
        self._land(Arrival("base", DAYS[0], False, BASE))
        self.load(arrivals)

    @rule(arrivals=ARRIVALS)
    def load(self, arrivals: list[Arrival]) -> None:
        """New objects, overwritten ones, late ones."""
        for arrival in arrivals:
            self._land(arrival)
        self._load(Mode.INCREMENTAL)

    @rule(arrivals=ARRIVALS)
    def load_more(self, arrivals: list[Arrival]) -> None:
        """Loads are what this is about: half of the steps."""
        self.load(arrivals)

    @rule()
    def load_again(self) -> None:
        """A rerun: keyed modes find every row as it is and write no data file (DESIGN §4, invariant 7)."""
        self._load(Mode.FULL)
        if self.setup.rules.mode in ("upsert", "snapshot"):
            receipt = self._load(Mode.FULL)
            changed = receipt.rows.inserted + receipt.rows.updated + receipt.rows.deleted
            assert (changed, receipt.files.added, receipt.files.rewritten, receipt.files.delete_files) == (0, 0, 0, 0)
        before = self.lake.table().metadata_location
        assert self._load(Mode.INCREMENTAL).state is State.NOTHING_TO_DO
        assert self.lake.table().metadata_location == before

    @rule(rename=st.booleans())
    def change_the_schema(self, rename: bool) -> None:
        """A column is declared, widened and dropped; dropped by another writer, as a rename is."""
        self.alone_since = max(self.before) + 1
        if rename and self.setup.value_name == "n":
            with self.lake.table().update_schema() as update:
                update.rename_column("n", "amount")
            self.setup = replace(self.setup, value_name="amount")
        elif self.setup.extra == "bigint" and "extra" in self._names():
            with self.lake.table().update_schema() as update:
                update.delete_column("extra")
            self.setup = replace(self.setup, extra="")
            self.model.rows = [replace(r, values={**r.values, "extra": None}) for r in self.model.rows]
        else:
            self.setup = replace(self.setup, extra="bigint" if self.setup.extra else "int")

    @rule(how=st.sampled_from(["reset", "rewind", "with table", "set"]), choice=st.integers(0, 9), arrivals=ARRIVALS)
    def move_the_bookmark(self, how: str, choice: int, arrivals: list[Arrival]) -> None:
        """No row moves, but with the table; the next load reads what is unseen then, and doubles nothing."""
        for arrival in arrivals:
            self._land(arrival)
        self.loads += 1
        declaration, services = declare_text(self.setup.text), self.lake.services
        version = sorted(self.before)[choice % len(self.before)]
        then = self.before[version].copy()
        match how:
            case "reset":
                reset_bookmark(declaration, OPERATOR, services)
                self.model.seen = {}
            case "rewind":
                rewind_bookmark(declaration, str(version), OPERATOR, services)
                self.model.seen = then.seen
            case "with table" if version >= self.alone_since:
                rewind_with_table(declaration, str(version), OPERATOR, services)
                self.model = then
            case "set" if self.setup.rules.mode != "snapshot":  # the model holds that the newest date was read
                set_bookmark(declaration, "now", OPERATOR, services)
                self.model.seen = {o.uri: o.mtime for o in self.landed.values()}

    @precondition(lambda self: len(self.lake.table().specs()) == 1)
    @rule(source=st.sampled_from(["d", "op"]))
    def change_the_partition_spec(self, source: str) -> None:
        table = self.lake.table()
        there = {table.schema().find_column_name(field.source_id): field.name for field in table.spec().fields}
        with table.update_spec() as update:
            if source in there:
                update.remove_field(there[source])
            else:
                update.add_identity(source)

    @precondition(lambda self: self._others_can_write())
    @rule(record=records(), number=st.integers(1, 8), compact=st.booleans())
    def commit_as_another_writer(self, record: dict[str, Any], number: int, compact: bool) -> None:
        """Compacts the table, or deletes a key, or appends one that is not there. What is gone comes back when an
        object that has it is loaded again."""
        table = self.lake.table()
        self.foreign = True
        self.alone_since = max(self.before) + 1
        if compact:
            table.overwrite(table.scan().to_arrow())
        elif any(row.key == number for row in self.model.rows):
            table.delete(f"id = {number}")
            self.model.rows = [row for row in self.model.rows if row.key != number]
        else:
            values = {**record, "id": number, "extra": None}
            names = self.setup.columns
            given = {names[name]: value for name, value in values.items() if value is not None}
            table.append(pa.Table.from_pylist([given], schema=table.schema().as_arrow()))
            self.model.rows.append(Row(values))

    @invariant()
    def the_table_is_the_model(self) -> None:
        if self.loads:
            assert self._rows(self.lake.table()) == self._expected()

    def teardown(self) -> None:
        try:
            # after a failed step the model says nothing, and what fails here would hide the step's own error
            if self.loads and sys.exc_info()[0] is None:
                self._check_the_end()
        finally:
            self.lake.close()
            self.folder.cleanup()

    def _check_the_end(self) -> None:
        table = self.lake.table()
        for snapshot, ids in self.published.items():
            # M08: whoever stays on a snapshot of ours sees all of its rows
            found = table.scan(selected_fields=("id",), snapshot_id=snapshot).to_arrow().to_pylist()
            assert sorted(str(row["id"]) for row in found) == ids
        if not self.foreign:
            assert self.lake.differences(declare_text(self.setup.text)) == []
        if self.duckdb is not None:
            names = [f.name for f in table.schema().fields]
            assert self._listed(self.duckdb.rows(table, names)) == self._expected()

    def _land(self, arrival: Arrival) -> None:
        # every version of an object has a time of its own; those of one load tie, and late ones are older
        mtime = START + timedelta(seconds=10 * self.loads - (25 if arrival.late else 0))
        key = f"input_date={arrival.day}/{arrival.name}.parquet"
        names = [name for name in ARROW if name in self.setup.columns]
        schema = pa.schema([(name, ARROW[name]) for name in names])
        uri = self.lake.put(key, arrival.rows, schema, mtime=mtime)
        rows = tuple({**row, "extra": row["extra"] if "extra" in names else None} for row in arrival.rows)
        self.landed[uri] = Landed(uri, arrival.day, mtime, rows)

    def _load(self, mode: Mode) -> Receipt:
        table = self.lake.table() if self.loads else None
        snapshots = {s.snapshot_id for s in table.metadata.snapshots} if table else set()
        declaration = declare_text(self.setup.text)
        known = self._names() if table else set()
        receipt = self.lake.load(declaration, mode=mode)
        expected = self.model.load(self._as_read(), full=mode is Mode.FULL)
        assert receipt.state is (State.NOTHING_TO_DO if expected is None else State.COMMITTED), receipt
        assert not known or known <= self._names()
        if expected is not None:
            assert receipt.rows == expected, f"{receipt.rows} is not {expected}"
            self.loads += 1
            self._check_snapshot(receipt, snapshots)
            assert receipt.bookmark_version is not None
            self.before[receipt.bookmark_version] = self.model.copy()
        return receipt

    def _as_read(self) -> list[Landed]:
        """Objects as today's declaration reads them: a column that it does not name is not read."""
        if self.setup.extra:
            return list(self.landed.values())
        return [replace(o, rows=tuple({**row, "extra": None} for row in o.rows)) for o in self.landed.values()]

    def _check_snapshot(self, receipt: Receipt, before: set[int]) -> None:
        """One batch is one snapshot (M08, M18), whose totals count the live rows."""
        table = self.lake.table()
        (added,) = [s for s in table.metadata.snapshots if s.snapshot_id not in before]
        assert added.snapshot_id == receipt.snapshot_id == table.metadata.current_snapshot_id
        summary = added.summary
        assert summary is not None
        assert summary["lakehouse.batch-id"] == receipt.batches[-1].batch_id
        # PyIceberg, as the other writer, leaves delete files of data files that it has removed, and counts them
        if not (self.foreign and self.setup.merge_mode == "merge-on-read"):
            assert _total(summary, "records") - _total(summary, "position-deletes") == len(self.model.rows)
        self.published[added.snapshot_id] = sorted(str(row.key) for row in self.model.rows)

    def _others_can_write(self) -> bool:
        """PyIceberg, who is the other writer here, computes no transform but identity."""
        return all(isinstance(field.transform, IdentityTransform) for field in self.lake.table().spec().fields)

    def _names(self) -> set[str]:
        return {f.name for f in self.lake.table().schema().fields}

    def _rows(self, table: Table) -> list[str]:
        return self._listed([canonical(row) for row in table.scan().to_arrow().to_pylist()])

    def _listed(self, rows: list[dict[str, Any]]) -> list[str]:
        """Rows of the table with the model's names, as sorted text."""
        columns = self.setup.columns
        return sorted(
            json.dumps(
                [
                    *(row.get(columns.get(name, "")) for name in ARROW),
                    *(row.get(name) for name in ("_source_file", "_source_line", "_source_mtime", "_source_date")),
                    row.get("_deleted_at") is not None,
                ]
            )
            for row in rows
        )

    def _expected(self) -> list[str]:
        def lineage(row: Row) -> Iterator[Any]:
            for value in (row.uri, row.line, row.mtime, row.day):
                yield canonical(value) if self.setup.rules.lineage else None

        return sorted(
            json.dumps([*(canonical(row.values.get(name)) for name in ARROW), *lineage(row), row.deleted])
            for row in self.model.rows
        )


def _total(summary: Summary, what: str) -> int:
    return int(summary.additional_properties.get(f"total-{what}", "0"))


PARTITIONS = st.sampled_from(["[]", "[d]", "[d, op]", "['day(t)']"])


def setups(rules: st.SearchStrategy[Rules]) -> st.SearchStrategy[Setup]:
    return st.builds(Setup, rules=rules, partition_by=PARTITIONS, merge_mode=st.sampled_from(MERGE_MODES))


DELETES: st.SearchStrategy[Deletes] = st.sampled_from(["none", "hard", "soft"])


@st.composite
def upserts(draw: st.DrawFn) -> Rules:
    lineage = draw(st.booleans())
    order: Order = draw(st.sampled_from(["column", "arrival"])) if lineage else "column"
    return Rules(order=order, deletes=draw(DELETES), lineage=lineage, retract=lineage and draw(st.booleans()))


class Upserts(MergeMachine):
    setups = setups(upserts())


class Snapshots(MergeMachine):
    setups = setups(
        st.builds(
            Rules,
            mode=st.just("snapshot"),
            order=st.sampled_from(["column", "arrival", "none"]),
            deletes=DELETES,
            retract=st.booleans(),
        )
    )


class Replacements(MergeMachine):
    setups = setups(
        st.builds(
            Rules,
            mode=st.just("replace_partition"),
            keyed=st.booleans(),
            order=st.sampled_from(["column", "arrival", "none"]),
        )
    )


class Appends(MergeMachine):
    setups = setups(st.builds(Rules, mode=st.just("append"), keyed=st.booleans(), order=st.just("none")))


MACHINES = [Upserts, Snapshots, Replacements, Appends]
SHORT = {Upserts: 2, Snapshots: 2, Replacements: 1, Appends: 1}
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.mark.parametrize("machine", MACHINES)
def test_random_histories_agree_with_the_model(machine: type[MergeMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=SHORT[machine], stateful_step_count=7, suppress_health_check=QUIET),
    )


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("machine", MACHINES)
def test_long_random_histories_agree_with_the_model_and_duckdb(machine: type[MergeMachine], tmp_path: Path) -> None:
    try:
        reader = DuckDBReader(tmp_path)
    except Missing as missing:
        pytest.skip(f"DuckDB's iceberg extension: {missing}")
    examples = int(os.environ.get("LAKEHOUSE_CHAOS_EXAMPLES", "60"))
    MergeMachine.duckdb = reader
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(max_examples=examples, stateful_step_count=20, suppress_health_check=QUIET),
        )
    finally:
        MergeMachine.duckdb = None
        reader.close()
