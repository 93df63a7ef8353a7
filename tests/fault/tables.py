"""The tables that faults happen to: their write modes, what lands for a first and for a later load, and what they must
hold afterwards, which an undisturbed run says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from lakehouse.ledger import BATCHES, FILES
from lakehouse.position import find_position
from tests.integration.test_write_modes import DECLARATION, DELETES, KEYED
from tests.lake import DAY_1, DAY_2, DAY_3, Lake

MODES: Mapping[str, tuple[str, str]] = {
    "upsert": ("upsert", KEYED),
    "upsert with position deletes": ("upsert", f"{DELETES}\n  table_properties: {{write.merge.mode: merge-on-read}}"),
    "snapshot": ("snapshot", f"{KEYED}\n  max_deleted_ratio: 1.0"),
    "replace_partition": ("replace_partition", ""),
    "append": ("append", ""),
}
"""What a declaration says of each: `write`, and what else; the names are those of the matrix."""
OBJECTS = ("one object", "several objects")
LOADS = ("first load", "later load")
_OF_THIS_RUN = ("_batch_id", "_ingested_at", "_source_mtime")
_UNTOUCHED = range(100, 140)
"""Keys that nothing changes: so many that a file with few dead rows gets position deletes where they are asked for."""
_COUNTED = ("decision", "rows_read", "rows_rejected", "rows_inserted", "rows_updated")

_MIDNIGHT = datetime(2026, 8, 30, tzinfo=UTC)

Row = tuple[int | str, str, int, str]
"""(id, amount, second of the day, op); an empty id is a reject."""
Landing = Mapping[tuple[date, str], tuple[Row, ...]]


def landing(mode: str, objects: str, load: str) -> Landing:
    """What lands before a load. The later one brings new keys, newer rows, a delete and, where the mode reads a date or
    an object again, another version of an object."""
    first: dict[tuple[date, str], tuple[Row, ...]] = {
        (DAY_1, "a.csv"): (
            (1, "1.00", 1, ""),
            (2, "2.00", 1, ""),
            (3, "3.00", 1, ""),
            ("", "0.00", 1, ""),
            *((key, "1.00", 1, "") for key in _UNTOUCHED),
        ),
    }
    more: dict[tuple[date, str], tuple[Row, ...]] = {
        (DAY_1, "b.csv"): ((4, "4.00", 1, ""), (5, "5.00", 1, "")),
        (DAY_2, "c.csv"): ((2, "2.50", 5, ""), (6, "6.00", 1, "")),
    }
    if load == "first load":
        return first | (more if objects == "several objects" else {})
    again = (DAY_1, "a.csv") if mode in ("append", "replace_partition") else (DAY_3, "d.csv")
    later: dict[tuple[date, str], tuple[Row, ...]] = {
        again: ((1, "1.70", 7, ""), (2, "2.00", 1, ""), (3, "3.70", 7, "D"), (8, "8.00", 7, "")),
    }
    if objects == "several objects":
        later[DAY_3, "e.csv"] = ((9, "9.00", 7, ""), ("", "0.00", 1, ""))
        later[DAY_2, "f.csv"] = ((4, "4.90", 9, ""), (10, "10.00", 9, ""))
    return later


def make_lake(stack: Any, folder: Path, mode: str) -> Lake:
    lake = Lake(stack, folder)
    write, more = MODES[mode]
    gates = "max_rejected_ratio: 1.0"
    lake.text = DECLARATION.format(table=lake.table, prefix=lake.name, write=write, more=more, gates=gates, source="")
    lake.write_declaration()
    return lake


def land(lake: Lake, files: Landing) -> None:
    for (day, name), rows in files.items():
        lines = [
            f"{key},{amount},{_MIDNIGHT + timedelta(seconds=at):%Y-%m-%dT%H:%M:%SZ},{op}\n"
            for key, amount, at, op in rows
        ]
        lake.put(day, name, ("order_id,amount,order_time,op\n" + "".join(lines)).encode())


@dataclass(frozen=True)
class Content:
    """What a run leaves: the table's rows and the ledger's files, each as often as it is there. What every run has of
    its own is left out: ids, times, the name of the landing folder."""

    rows: Counter[str]
    files: Counter[str]
    batches: int


def content(lake: Lake) -> Content:
    """Read with PyIceberg alone. `batches` are those that brought rows, upkeep's fences left out."""
    found = lake.stack.catalog().load_table(lake.table).scan().to_arrow().drop_columns([*_OF_THIS_RUN]).to_pylist()
    files = [f"{row['uri'].rpartition(lake.name)[2]} {[row[name] for name in _COUNTED]}" for row in ledger(lake, FILES)]
    batches = sum(row["kind"] == "load" for row in ledger(lake, BATCHES))
    return Content(Counter(_row(row, lake) for row in found), Counter(files), batches)


def ledger(lake: Lake, name: str) -> list[dict[str, Any]]:
    uuid = str(lake.stack.catalog().load_table(lake.table).metadata.table_uuid)
    found = lake.stack.catalog().load_table(f"ops_{lake.name}.{name}").scan().to_arrow().to_pylist()
    return [row for row in found if row["table_uuid"] == uuid]


def ledger_is_complete(lake: Lake) -> bool:
    """One row for each version up to the bookmark's."""
    version = find_position(lake.declaration, lake.services()).bookmark.version
    return sorted(row["bookmark_version"] for row in ledger(lake, BATCHES)) == [*range(1, version + 1)]


def _row(row: Mapping[str, Any], lake: Lake) -> str:
    shown = {**row, "_source_file": str(row.get("_source_file")).rpartition(lake.name)[2]}
    return " ".join(f"{name}={shown[name]}" for name in sorted(shown))


class Undisturbed:
    """What runs that nothing happens to leave after each load; each is run once."""

    def __init__(self, stack: Any, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._known: dict[tuple[str, str], dict[str, Content]] = {}

    def __call__(self, mode: str, objects: str, load: str) -> Content:
        if (mode, objects) not in self._known:
            self._known[mode, objects] = self._run(mode, objects)
        return self._known[mode, objects][load]

    def _run(self, mode: str, objects: str) -> dict[str, Content]:
        lake = make_lake(self._stack, self._folder / f"{mode} {objects}".replace(" ", "-"), mode)
        left = {}
        for load in LOADS:
            land(lake, landing(mode, objects, load))
            receipt = lake.load()
            assert receipt.exit_code == 0, receipt.error
            left[load] = content(lake)
        return left
