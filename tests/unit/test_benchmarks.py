"""The benchmark's own yardsticks: its expected results against a plain dict model, its checker against wrong tables,
its claims against figures that miss them, and the whole of it once on a small table."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks import run as benchmark
from benchmarks.checker import compare_rows, expected_of_day, files_by_day, read_expected
from benchmarks.claims import AGAIN, FIRST, Claim, claims
from benchmarks.counting import CATALOG_READ, CATALOG_WRITE, DATA, LANDING, LISTING, STATE, TABLE_WRITE, Request, kind
from benchmarks.discovery.sizes import LARGE, PAGINATOR, PLAN, TICK, Sizes
from benchmarks.discovery.sizes import LISTING as BARE_LISTING
from benchmarks.discovery.sizes import declaration_text as seen_declaration
from benchmarks.discovery.state import old_parts
from benchmarks.generate import generate, session, write_day
from benchmarks.measure import jobs
from benchmarks.ours import declaration_text, table_text
from benchmarks.peer_pyiceberg import make_target, read_source
from benchmarks.peers import DUCKDB, PYICEBERG, SPARK_READ, parse_java_version
from benchmarks.reading.check import compare_peer, compare_staged
from benchmarks.reading.files import BAD_STEP, Files
from benchmarks.reading.ours import declared
from benchmarks.reading.sides import BOTO3, LANDED, LOCAL, OBSTORE, SNIFFED, TEXTS, TYPES
from benchmarks.report import bar_chart
from benchmarks.result import OURS, Result, Run, distances
from benchmarks.rewind import back, mark
from benchmarks.rows import names, rows_of_day
from benchmarks.scenario import PartFailed
from benchmarks.upkeep import files as daily_files
from benchmarks.upkeep import sizes as upkeep
from benchmarks.upkeep.measure import Expected
from benchmarks.upkeep.question import Question
from benchmarks.upkeep.read_duckdb import sql_of
from benchmarks.upkeep.read_pyiceberg import read
from benchmarks.workload import DAYS, MERGING, NEW_DAY, ORDERS, Batch, Dataset, Target, cases, first_days, needed
from lakehouse.checkpoint import seen_objects
from lakehouse.declaration.load import parse_declarations
from lakehouse.placement import landing_date

ROWS = 30_000
SETS = {
    "daily": cases("daily", ROWS)["load"],
    "scatter": cases("scatter", ROWS)["load"],
    "late updates": cases("scatter-late", ROWS)["load"],
    "every row of three days, random keys": next(iter(cases("growth-random", ROWS).values())),
    "two keys": cases("composite", ROWS)["two strings"],
}


@pytest.fixture(scope="module", params=tuple(SETS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Target]:
    case = SETS[request.param]
    return generate(tmp_path_factory.mktemp("made"), case.target, case.batch), case.target


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _landed(target: Target, folder: Path) -> list[dict[str, str]]:
    """The rows of the target as its files have them."""
    rows = []
    for day in first_days():
        write_day(target, day, folder / "day.csv")
        rows += _read(folder / "day.csv")
    return rows


def _is_amount(text: str) -> bool:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return False
    return text.isascii() and abs(value) < 10**10 and value == value.quantize(Decimal("0.01"))


def _merge(
    target: dict[str, dict[str, str]], file: list[dict[str, str]]
) -> tuple[dict[str, dict[str, str]], set[int], dict[str, int]]:
    """What a load must do, row by row: the rows by key, the refused lines, the counts."""
    refused: set[int] = set()
    newest: dict[str, dict[str, str]] = {}
    counts = dict.fromkeys(("read", "rejected", "staged", "superseded", "stale", "inserted", "updated", "unchanged"), 0)
    for line, row in enumerate(file, start=2):
        counts["read"] += 1
        if not row["order_id"] or not _is_amount(row["amount"]):
            refused.add(line)
            continue
        counts["staged"] += 1
        old = newest.get(row["order_id"])
        counts["superseded"] += old is not None
        if old is None or row["order_time"] >= old["order_time"]:
            newest[row["order_id"]] = row
    counts["rejected"] = len(refused)
    for key, row in newest.items():
        old = target.get(key)
        if old is None:
            fate = "inserted"
        elif old == row:
            fate = "unchanged"
        else:
            fate = "stale" if row["order_time"] < old["order_time"] else "updated"
        counts[fate] += 1
        if fate in ("inserted", "updated"):
            target[key] = row
    return target, refused, counts


def test_expected_results_are_those_of_a_plain_model(made: tuple[Dataset, Target], tmp_path: Path) -> None:
    dataset, target = made
    before = {row["order_id"]: row for row in _landed(target, tmp_path)}
    assert len(before) == target.rows
    rows, refused, counts = _merge(before, _read(dataset.batch))
    stated = json.loads(dataset.counts.read_text())
    assert {k: v for k, v in stated["batch"].items() if k in counts} == counts
    assert counts["rejected"] > 0 and counts["updated"] > 0
    assert stated["expected"] == {"rows": len(rows), "sum": str(sum(Decimal(r["amount"]) for r in rows.values()))}
    assert set(pq.read_table(dataset.rejects)["line_number"].to_pylist()) == refused
    expected = {(r["order_id"], r["amount"], r["status"], r["note"]) for r in rows.values()}
    assert _expected_rows(dataset) == expected


def _expected_rows(dataset: Dataset) -> set[tuple[str, ...]]:
    """What the checker expects, of all days together."""
    expected, con = read_expected(dataset.root, "s3://landing/x/"), session()
    con.execute(f"create view changes as from '{dataset.changes}'")
    found = set()
    for day in (*first_days(), NEW_DAY):
        rows = con.execute(
            f"select order_id, amount, status, note from ({expected_of_day(expected, day, 'b')})"
        ).fetchall()
        found |= {tuple(map(str, row)) for row in rows}
    return found


def test_a_wide_file_has_200_columns_and_updates_every_row_of_three_days(tmp_path: Path) -> None:
    case = cases("wide", 50_000)["load"]
    dataset = generate(tmp_path, case.target, case.batch)
    counts = json.loads(dataset.counts.read_text())["batch"]
    assert (len(_read(dataset.batch)[0]), counts["inserted"]) == (200, 0)
    assert counts["updated"] + counts["stale"] + counts["unchanged"] == 100


def test_a_target_is_spread_over_all_its_days() -> None:
    target = Target("orders", 1_000)
    numbers = [n for day in first_days() for n in target.rows_of(day)]
    assert numbers == list(range(1_000))
    day = first_days()[7]
    ((days, first_line),) = (
        session()
        .execute(f"select list(distinct input_date), min(_source_line) from ({rows_of_day(target, day)})")
        .fetchall()
    )
    assert (days, first_line) == ([day], 2)


def test_rejects_hold_the_text_of_their_lines(made: tuple[Dataset, Target]) -> None:
    dataset, _ = made
    lines = dataset.batch.read_text().split("\n")
    for reject in pq.read_table(dataset.rejects).to_pylist():
        assert lines[reject["line_number"] - 1] == reject["raw"]


def test_the_peers_get_the_good_rows_once(made: tuple[Dataset, Target]) -> None:
    dataset, target = made
    counts = json.loads(dataset.counts.read_text())["batch"]
    keys = read_source(dataset.clean, target)["order_id"].to_pylist()
    assert len(keys) == len(set(keys)) == counts["staged"] - counts["superseded"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Target, Table]:
    folder, target = tmp_path_factory.mktemp("filled"), Target("orders", 3_000)
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    make_target(catalog, "bench.t", target)
    return target, catalog.load_table("bench.t")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("select *", []),
        ("select * replace (order_id + 10000 * (order_id = 7)::int as order_id)", ["missing", "not expected"]),
        ("select * replace (amount + (order_id = 7)::int as amount)", ["different", "sum(amount)"]),
        ("select * replace (case when order_id = 7 then null else note end as note)", ["different"]),
        ("select * replace (case when order_id = 7 then 8 else order_id end as order_id)", ["not expected"]),
        ("select * limit 99", ["not expected", "count(*)"]),
        ("select * union all select -1, * exclude (order_id) from extra", ["missing", "count(*)"]),
    ],
)
def test_the_checker_finds_one_wrong_row(filled: tuple[Target, Table], change: str, found: list[str]) -> None:
    target, table = filled
    day = first_days()[0]
    differences = _compare(table, target, f"with t as ({_day(target)}), extra as (from t limit 1) from t {change}")
    assert [word for word in found if word not in " ".join(differences)] == []
    assert bool(differences) == bool(found)
    assert len(files_by_day(table)) == DAYS and day in files_by_day(table)


def test_the_checker_finds_a_doubled_row_and_a_table_can_be_put_back(filled: tuple[Target, Table]) -> None:
    target, table = filled
    before = mark(table)
    table.append(table.scan(f"input_date = '{first_days()[0]}'", limit=1).to_arrow())
    assert any("count(*)" in difference for difference in _compare(table, target, _day(target)))
    back(table, before)
    table.refresh()
    assert mark(table) == before
    assert _compare(table, target, _day(target)) == []


def _day(target: Target) -> str:
    return f"select {names(target)} from ({rows_of_day(target, first_days()[0])})"


def _compare(table: Table, target: Target, expected: str) -> list[str]:
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'")
    con.execute(f"create view expected as {expected}")
    return compare_rows(con, table, tuple(target.columns), day=first_days()[0])


def _run(seconds: float, *, files: Mapping[str, int] | None = None, steps: Mapping[str, float] | None = None) -> Run:
    details = {"files": files or {}, "seconds": steps or {}}
    return Run(seconds=seconds, cpu_seconds=seconds, process_seconds=seconds, rss_bytes=1 << 30, details=details)


def _result(workload: str, rows: int, runs: Mapping[str, list[Run]], **more: object) -> Result:
    return Result(workload, rows, {"batch": {"read": 1}}, runs, tuple(runs)[:1], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "pyiceberg", "duckdb", "missed"),
    [
        (10_000_000, 61.0, 0.5, []),
        (10_000_000, 59.0, 0.5, [PYICEBERG.name]),
        (10_000_000, 61.0, 0.3, [DUCKDB.name]),
        (1_000_000, 2.0, 0.1, []),
    ],
)
def test_a_missed_figure_is_told(rows: int, pyiceberg: float, duckdb: float, missed: list[str]) -> None:
    runs = {OURS: [_run(9.0), _run(1.0), _run(0.5)], PYICEBERG.name: [_run(pyiceberg)], DUCKDB.name: [_run(duckdb)]}
    result = _result("daily", rows, runs)
    found = claims(result, {})
    assert [name for claim in found if claim.missed for name in missed if name in claim.what] == missed
    assert sum(claim.missed for claim in found) == len(missed)
    assert [claim.verdict for claim in found if SPARK_READ.name in claim.what] == ["not measured"]
    assert f"({pyiceberg:.1f}×)" in bar_chart(result)


def test_a_second_load_that_writes_a_file_is_told_at_any_size() -> None:
    runs = {AGAIN: [_run(0.5, files={"added": 0}), _run(0.5, files={"added": 1})], FIRST: [_run(1.0)]}
    assert [claim.verdict for claim in claims(_result("rerun-full", 1_000, runs), {})] == [
        "MISSED",
        "pass, aim reached",
    ]


def test_requests_beyond_listing_and_state_are_told() -> None:
    for requests, verdict in (({LISTING: 1, STATE: 9}, "pass"), ({LISTING: 1, DATA: 1}, "MISSED")):
        result = _result("rerun-incremental", 1_000, {"nothing unseen": [_run(0.2)]}, requests=requests)
        assert claims(result, {})[1].verdict == verdict


def test_growth_and_memory_compare_sizes() -> None:
    for workload, verdict in (("growth", "MISSED"), ("growth-random", "reported")):
        labels = list(cases(workload, 10_000_000))
        growth = _result(workload, 10_000_000, {label: [_run(1.0 + n)] for n, label in enumerate(labels)})
        assert [(c.value, c.verdict) for c in claims(growth, {})] == [(3.0, verdict)]
    daily = _result("daily", 10_000_000, {OURS: [_run(1.0)]})
    memory = claims(_result("memory", 10_000_000, {OURS: [_run(11.0)]}), {"daily": daily})
    assert [(c.value, c.verdict) for c in memory] == [(1.0, "pass"), (11.0, "pass")]


def test_reading_is_compared_with_others_and_with_its_memory() -> None:
    def took(seconds: float, listing: float = 0.0) -> list[Run]:
        return [_run(seconds, steps={"plan": listing})]

    runs = {LOCAL: took(2.0), LANDED: took(3.0), TEXTS: took(1.0), TYPES: took(0.9), SNIFFED: took(1.1)}
    found = claims(_result("read-csv", 10_000_000, runs), {})
    assert [claim.verdict for claim in found] == ["pass", "MISSED", "pass", "reported"]
    runs = {LANDED: took(10.0, 1.0), BOTO3: took(49.0, 5.0), OBSTORE: took(5.0, 0.5)}
    found = claims(_result("small-files", 10_000_000, runs), {})
    assert [(claim.value, claim.verdict) for claim in found] == [(4.9, "MISSED"), (2.0, "pass")]
    for rows, must in ((10_000_000, 3.0), (1_000_000, 1.5)):
        (claim,) = claims(_result("big-csv", rows, {OURS: [_run(1.0)]}), {})
        assert (claim.value, claim.must, claim.verdict) == (1.0, must, "pass")


def test_discovery_is_compared_with_its_listing() -> None:
    tick = [replace(_run(2.5), checked={"cursor bytes": 900})]
    runs = {BARE_LISTING: [_run(0.5)], PAGINATOR: [_run(2.0)], PLAN: [_run(2.9)], LARGE: [_run(3.5)], TICK: tick}
    found = claims(_result("discovery", 10_000_000, runs), {})
    assert [claim.verdict for claim in found] == [
        "pass",
        "MISSED",
        "pass, aim reached",
        "MISSED",
        "pass",
    ]
    assert "1 listed objects" in bar_chart(_result("discovery", 10_000_000, runs))


def test_objects_that_are_not_listed_any_more_come_in_the_order_of_their_keys() -> None:
    sizes = Sizes(50_000)
    (declaration,) = parse_declarations(seen_declaration("bench.seen_5000"), path=Path("defs.yaml"), env={})
    found = [item for table in old_parts(sizes, 25_000, declaration) for item in seen_objects(table)]
    assert [item.object.uri for item in found] == [f"s3://landing/{sizes.key(n)}" for n in range(-25_000, 0)]
    assert [item.object.uri for item in found] == sorted(item.object.uri for item in found)
    days = {landing_date(item.object.uri, source=declaration.source) == item.landing_date for item in found}
    assert days == {True}


def test_daily_files_one_after_another_make_the_final_rows(tmp_path: Path) -> None:
    sizes, table, updates = upkeep.Sizes(900), {}, []
    with session() as con:
        daily_files.make_updates(con, sizes)

        def made(sql: str) -> list[dict[str, str]]:
            daily_files.write(con, sql, tmp_path / "day.csv")
            return _read(tmp_path / "day.csv")

        for day in range(upkeep.ALL_DAYS):
            rows = made(daily_files.landed(sizes, day))
            new = [row for row in rows if row["order_id"] not in table]
            old = [row for row in rows if row["order_id"] in table]
            assert [int(row["order_id"]) for row in new] == list(sizes.rows_of(day))
            assert {row["input_date"] for row in new} == {str(upkeep.date_of(day))}
            assert all(str(upkeep.date_of(day - upkeep.UPDATED)) <= row["input_date"] for row in old)
            assert all(row["order_time"] > table[row["order_id"]]["order_time"] for row in old)
            updates.append(len(old))
            table |= {row["order_id"]: row for row in rows}
        final = [made(daily_files.final(sizes, sizes.rows_of(day))) for day in range(upkeep.ALL_DAYS)]
        scan, row = daily_files.expected_scan(con, sizes), daily_files.expected_row(con, sizes)
        assert [daily_files.updates_of(con, day) for day in range(DAYS, upkeep.ALL_DAYS)] == updates[DAYS:]
    assert {row["order_id"]: row for rows in final for row in rows} == table
    assert sum(len(rows) for rows in final) == len(table) == sizes.all_rows == 1800
    assert sum(updates[:DAYS]) == 0 and 5 <= sum(updates[DAYS:]) / upkeep.MERGES <= 12  # about a hundredth of 900
    assert scan == _by_status(list(table.values()))
    assert row == [table[row[0]][column] for column in daily_files.LOOKED_UP]


def _by_status(rows: list[dict[str, str]]) -> list[list[str]]:
    found = []
    for status in sorted({row["status"] for row in rows}):
        own = [row for row in rows if row["status"] == status]
        sums = (sum(Decimal(row["amount"]) for row in own), sum(int(row["order_id"]) for row in own))
        found.append([status, str(len(own)), *map(str, sums)])
    return found


def test_a_reader_of_daily_merges_answers_what_the_rows_say(filled: tuple[Target, Table], tmp_path: Path) -> None:
    target, table = filled
    snapshot = table.metadata.snapshots[0].snapshot_id
    rows = _landed(target, tmp_path)
    found = read(table.catalog, Question("bench.t", snapshot, None, None))
    assert [[str(value) for value in row] for row in found] == _by_status(rows)
    found = read(table.catalog, Question("bench.t", snapshot, str(first_days()[1]), 107))
    assert [[str(value) for value in row] for row in found] == [[rows[107][c] for c in daily_files.LOOKED_UP]]
    question = Question("bench.t", 7, None, None)
    assert "from lake.bench.t at (version => 7) group by status" in sql_of(question)
    assert sql_of(replace(question, day="2026-08-02", key=107)).endswith("date '2026-08-02' and order_id = 107")


def test_wrong_rows_after_daily_merges_are_told() -> None:
    scan, row = [["done", "2", "3.00", "1"]], ["1", "C1", "2.00", "done", "2026-08-02", "n"]
    expected = Expected(upkeep.Sizes(900), scan, row, [9] * upkeep.MERGES)
    right = [{"inserted": 900, "updated": 0}, *({"inserted": 30, "updated": 9} for _ in range(upkeep.MERGES))]
    expected.check("r", upkeep.SCAN, scan)
    expected.check("r", upkeep.LOOKUP, [row])
    expected.check_loads(upkeep.MERGED, right)
    expected.check_loads(upkeep.ONCE, [{"inserted": 1800, "updated": 0}])
    for read_, found in ((upkeep.SCAN, [["done", "3", "3.00", "1"]]), (upkeep.LOOKUP, [row, row]), (upkeep.LOOKUP, [])):
        with pytest.raises(PartFailed, match="expected="):
            expected.check("r", read_, found)
    with pytest.raises(PartFailed, match=r"\(30, 9\)"):
        expected.check_loads(upkeep.MERGED, [*right[:-1], {"inserted": 30, "updated": 8}])
    with pytest.raises(PartFailed, match="1800"):
        expected.check_loads(upkeep.ONCE, right)


def test_reading_after_compaction_is_compared_with_a_table_that_was_never_merged() -> None:
    took = {upkeep.NEVER: 1.0, upkeep.AFTER: 3.9, upkeep.AFTER_DEFAULT: 2.0, upkeep.COMPACTED: 1.3}
    runs = {
        upkeep.part(upkeep.PYICEBERG, read_, state): [_run(seconds if read_ == upkeep.SCAN else seconds / 10)]
        for read_ in upkeep.READS
        for state, seconds in took.items()
    }
    counts = {"batch": {"read": 1, f"delete files ({upkeep.COMPACTED})": 1}}
    result = replace(_result("upkeep", 10_000_000, runs | {upkeep.COMPACTION: [_run(9.0)]}), counts=counts)
    found = claims(result, {})
    assert [claim.verdict for claim in found] == [
        *("MISSED", "reported", "reported"),
        *("pass", "reported", "reported", "reported"),
        *["not measured"] * 7,
        "MISSED",
        "pass",
    ]
    assert [claim.value for claim in found[1:5]] == pytest.approx([3.0, 2.0, 0.03, 1.3])


@pytest.mark.parametrize("table", upkeep.TABLES)
def test_tables_of_daily_merges_are_declared(table: str) -> None:
    text = table_text(upkeep.name_of(table), upkeep.prefix_of(table), ORDERS, properties=upkeep.TABLES[table])
    (declaration,) = parse_declarations(text, path=Path("defs.yaml"), env={})
    assert dict(declaration.table_properties) == upkeep.TABLES[table]
    assert declaration.source.uri == f"s3://landing/{upkeep.prefix_of(table)}"


FILES = Files(3, BAD_STEP // 2)


@pytest.fixture(scope="module")
def read_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, and below the same folder what Python's csv makes of them, as `staged` and `rejects`."""
    folder = tmp_path_factory.mktemp("files")
    FILES.write(folder / FILES.day_folder)
    with session() as con:
        rows, rejects = [], []
        for path in sorted((folder / FILES.day_folder).iterdir()):
            raws = path.read_text().splitlines()
            for line, row in enumerate(_read(path), start=2):
                place = (line, "2026-08-31", f"s3://landing/{path.name}")
                if row["order_id"] and _is_amount(row["amount"]):
                    rows.append([*row.values(), *place])
                else:
                    column = "amount" if row["order_id"] else "order_id"
                    rejects.append([line, column, raws[line - 1], place[2]])
        names = [*FILES.target.columns, "_source_line", "_source_date", "_source_file"]
        types = [*FILES.target.columns.values(), "BIGINT", "DATE", "VARCHAR"]
        _write(con, folder / "staged.parquet", rows, dict(zip(names, types, strict=True)))
        kinds = {"line_number": "BIGINT", "column_name": "VARCHAR", "raw": "VARCHAR", "uri": "VARCHAR"}
        _write(con, folder / "rejects.parquet", rejects, kinds)
    return folder


def _write(con: duckdb.DuckDBPyConnection, path: Path, rows: list[list[object]], types: Mapping[str, str]) -> None:
    texts = pa.table({name: [str(row[i]) for row in rows] for i, name in enumerate(types)})
    con.register("texts", texts)
    listed = ", ".join(f"{name}::{kind} as {name}" for name, kind in types.items())
    con.execute(f"copy (select {listed} from texts) to '{path}' (format parquet)")


@pytest.mark.parametrize(
    ("rows", "rejects", "found"),
    [
        ("from {}", "from {}", []),
        ("select * replace (amount + (_source_line = 7)::int as amount) from {}", "from {}", ["amount", "whole rows"]),
        ("select * replace (_source_line + (order_id = 7)::int as _source_line) from {}", "from {}", ["_source_line"]),
        ("from {} limit 100", "from {}", ["rows"]),
        ("from {}", "from {} limit 1", ["reject missing"]),
        ("from {}", "select * replace (raw || 'x' as raw) from {}", ["reject missing", "reject not expected"]),
    ],
)
def test_the_check_of_reading_finds_what_is_wrong(read_files: Path, rows: str, rejects: str, found: list[str]) -> None:
    with session() as con:
        differences = compare_staged(
            con,
            FILES,
            "s3://landing/",
            rows=rows.format(f"'{read_files}/staged.parquet'"),
            rejects=rejects.format(f"'{read_files}/rejects.parquet'"),
        )
    assert [word for word in found if word not in " ".join(differences)] == []
    assert bool(differences) == bool(found)


def test_what_peers_read_is_checked(read_files: Path) -> None:
    size = sum(path.stat().st_size for path in read_files.rglob("*.csv"))
    total = FILES.target.rows
    for right, wrong in (
        ({"bytes": size}, {"bytes": size - 1}),
        ({"rows": total}, {"rows": total + 1}),
        ({"rows": total - 2}, {"rows": total - 9}),
    ):
        assert compare_peer(FILES, right, read_files) == []
        assert compare_peer(FILES, wrong, read_files) != []
    assert len(declared(FILES).columns) == len(FILES.target.columns)


def test_bounds_and_verdicts() -> None:
    assert Claim("w", "x", 2.0, "×", must=2.0, aim=1.0).verdict == "pass"
    assert Claim("w", "x", 1.0, "×", must=2.0, aim=3.0, at_least=True, binding=False).verdict.startswith("not required")
    assert Claim("w", "x", None, "×", must=2.0).verdict == "not measured"


def test_floors_stand_beside_the_two_largest_steps() -> None:
    steps = {"plan": 0.1, "read": 0.2, "stage": 2.0, "merge": 3.0, "publish": 0.1, "ledger": 0.1, "total": 5.5}
    result = _result("daily", 1_000, {OURS: [_run(5.5, steps=steps)]}, floors=({"stage": 0.5, "read": 0.1},))
    assert [(d.step, d.floor, d.times) for d in distances(result)] == [("merge", None, None), ("stage", 0.5, 4.0)]


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (Request("s3", "GET", "/landing?list-type=2&prefix=bench%2F"), LISTING),
        (Request("s3", "GET", "/landing/bench/landing_date=2026-08-31/orders.csv"), LANDING),
        (Request("s3", "PUT", "/state/lakehouse/lease.json"), STATE),
        (Request("s3", "GET", "/warehouse/bench/t/data/a.parquet"), DATA),
        (Request("s3", "PUT", "/warehouse/bench/t/metadata/a.avro"), TABLE_WRITE),
        (Request("catalog", "GET", "/v1/warehouse/namespaces/bench/tables/t"), CATALOG_READ),
        (Request("catalog", "POST", "/v1/oauth/tokens"), CATALOG_READ),
        (Request("catalog", "POST", "/v1/warehouse/namespaces/bench/tables/t"), CATALOG_WRITE),
    ],
)
def test_requests_are_told_apart(request_: Request, found: str) -> None:
    assert kind(request_, state="state") == found


def test_workloads_share_cases_and_targets() -> None:
    assert needed(("memory",)) == ("daily", "memory")
    todo = jobs(MERGING, 1_000_000, ("duckdb",))
    assert [len(todo[Target("orders", rows)]) for rows in (100_000, 1_000_000, 10_000_000)] == [1, 3, 2]
    daily = todo[Target("orders", 1_000_000)][0]
    assert (daily.peers, daily.reruns, daily.floors) == ((DUCKDB,), True, True)
    assert cases("growth", 1_000_000)["1,000,000 rows, keys in time order"] == daily.case
    assert {c.batch.new for c in cases("growth", 1_000_000).values()} == {90_000}
    assert Batch(0, 1, all_days=True).title != Batch(0, 1).title


@pytest.mark.parametrize("workload", MERGING)
def test_declarations_are_right(workload: str) -> None:
    for case in cases(workload, 10_000_000).values():
        (declaration,) = parse_declarations(declaration_text(case), path=Path("defs.yaml"), env={})
        assert tuple(declaration.key) == case.key
        assert len(declaration.columns) == len(case.target.columns)


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_392"', 8), ("command not found", None)],
)
def test_the_version_of_java_is_read(text: str, version: int | None) -> None:
    assert parse_java_version(text) == version


@pytest.mark.chaos
@pytest.mark.timeout(600)  # about twenty processes, one after another
def test_the_whole_benchmark_on_a_small_table(tmp_path: Path) -> None:
    options = ["--rows", "20000", "--workloads", "rerun-full", "rerun-incremental", "--peers", "pyiceberg"]
    code = benchmark.main([*options, "--repeat", "1", "--no-require", "--results", str(tmp_path)])
    assert code == 0
    for name in ("daily", "rerun-full", "rerun-incremental"):
        result = json.loads((tmp_path / f"{name}-20000.local.json").read_text())
        assert result["claims"] and result["machine"]["commit"] is not None
        assert (tmp_path / f"{name}-20000.local.svg").read_text().startswith("<svg")
    daily = json.loads((tmp_path / "daily-20000.local.json").read_text())
    assert set(daily["runs"]) == {OURS, PYICEBERG.name}
    assert all(run["checked"] for runs in daily["runs"].values() for run in runs)
    assert len(daily["largest_steps"]) == 2


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_the_benchmark_of_reading_on_small_files(tmp_path: Path) -> None:
    options = ["--rows", "20000", "--workloads", "small-files", "big-csv", "--repeat", "1"]
    assert benchmark.main([*options, "--no-require", "--results", str(tmp_path)]) == 0
    for name in ("small-files", "big-csv"):
        result = json.loads((tmp_path / f"{name}-20000.local.json").read_text())
        assert all(run["checked"] for runs in result["runs"].values() for run in runs)


@pytest.mark.chaos
@pytest.mark.timeout(900)  # sixty loads and some twenty processes, one after another
def test_the_benchmark_of_upkeep_on_a_small_table(tmp_path: Path) -> None:
    options = ["--rows", "3000", "--workloads", "upkeep", "--repeat", "1", "--peers", "pyiceberg", "duckdb"]
    assert benchmark.main([*options, "--no-require", "--results", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "upkeep-3000.local.json").read_text())
    readers = set(upkeep.READERS) - set(result["skipped"])
    assert upkeep.PYICEBERG in readers
    states = (upkeep.NEVER, upkeep.AFTER, upkeep.AFTER_DEFAULT, upkeep.COMPACTED)
    reads = {upkeep.part(*asked) for asked in product(readers, upkeep.READS, states)}
    assert reads < set(result["runs"])
    assert all(run["checked"] for name in (*reads, upkeep.COMPACTION) for run in result["runs"][name])
    files = result["counts"]["batch"]
    assert files[f"delete files ({upkeep.AFTER})"] > 0 == files[f"delete files ({upkeep.COMPACTED})"]
    assert files[f"data files ({upkeep.AFTER})"] > files[f"data files ({upkeep.COMPACTED})"]
