"""Writes the files of a batch: new rows and the survivors of rewritten files, by partition, sorted by key; and the
position deletes of files that stay.

Files are written locally by DuckDB, uploaded through the table's FileIO under a path that names batch and attempt, and
stay invisible until the commit. Their statistics come from the written Parquet itself.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lakehouse.catalog import translated
from lakehouse.engines.duckdb import second
from lakehouse.faults import fault_point
from lakehouse.merge.data_file import describe, stored_values
from lakehouse.merge.fixed_length import fix_lengths
from lakehouse.merge.fresh import Fresh, FreshPart, select_fresh
from lakehouse.merge.layout import field_ids_sql
from lakehouse.merge.local_files import LocalFile, copy_files, damage_named, select_rows
from lakehouse.merge.match import FileChange, Match
from lakehouse.merge.policy import Fate
from lakehouse.merge.position_deletes import write_deletes
from lakehouse.merge.positions import positions_by_file
from lakehouse.merge.target_files import PARALLEL_READS, TargetFile
from lakehouse.naming import TARGET_FILE_BYTES, quote_name, quote_text
from lakehouse.table_files import upload

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

FILE_BYTES = 256 << 20
"""Size that data files aim at unless the table says otherwise."""
ROW_GROUP = 122_880
"""Rows of a row group as DuckDB writes them."""
LIGHT_VALUES = 1_500_000
"""Rows of a partition with up to so many values are light: they are written with others, or beside them."""
VALUES_TOGETHER = 1_000_000
PARTS_TOGETHER = 16
"""Light partitions that one statement writes; more leave nothing for the other writer."""
WRITERS = 3
COMPRESSION_LEVEL = 1
"""Of zstd: the time that a higher level takes buys less than a tenth of the size."""


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """New data and position delete files of a batch, uploaded, and the paths of both kinds that go with its commit.

    `keys_found` counts the batch's inserted and updated keys that were read back from what was written, `live_change`
    what the files say of the number of live rows.
    """

    added: tuple[DataFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()
    removed: frozenset[str] = frozenset()
    keys_found: int = 0
    live_change: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """One partition that changes: its values as manifests hold them, its new rows (None: it gets none), and the files
    whose other rows survive."""

    values: tuple[Any, ...]
    fresh: FreshPart | None
    rewritten: tuple[FileChange, ...] = ()

    @property
    def rows(self) -> int:
        fresh = self.fresh.count if self.fresh is not None else 0
        return fresh + sum(map(_surviving, self.rewritten))

    @property
    def stored(self) -> bool:
        """All that it gets stands in `fresh_parts`."""
        return self.fresh is not None and self.fresh.number is not None and not self.rewritten

    def light(self, columns: int) -> bool:
        """One row group with few values holds it."""
        return self.rows <= min(ROW_GROUP, LIGHT_VALUES // columns)


def write_files(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    match: Match,
    *,
    table: Table,
    batch_id: str,
    attempt_id: str,
    ingested_at: datetime,
    folder: Path,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> WrittenFiles:
    """Write what the match changed; nothing is written if no row came, changed or died.

    `progress` hears how many of the partitions are written.
    """
    fresh_rows = match.counts.inserted + match.counts.updated
    if not fresh_rows and not match.changes:
        return WrittenFiles()
    session = _Session(con, declaration, table, folder, f"{batch_id}/{attempt_id}")
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        deletes = [pool.submit(session.delete, target, positions) for target, positions in _positions(con, match)]
        fresh = select_fresh(con, declaration, match, table=table, batch_id=batch_id, ingested_at=ingested_at)
        written, uploads = session.write(pool, _plan_parts(session, fresh, match), progress)
        keys_found = _read_back(con, declaration, match, written) if fresh_rows else 0
        added = tuple(upload.result() for upload in uploads)
        delete_files = tuple(future.result() for future in deletes)
    for path in written:
        path.unlink()
    return WrittenFiles(
        added=added,
        deletes=delete_files,
        removed=frozenset(_removed(match)),
        keys_found=keys_found,
        live_change=sum(f.record_count for f in added) - sum(_dying(change) for change in match.changes),
    )


def target_file_bytes(properties: Mapping[str, str]) -> int:
    """The size that data files of a table aim at."""
    text = properties.get(TARGET_FILE_BYTES, "")
    return int(text) if text.isdecimal() and int(text) else FILE_BYTES


def _removed(match: Match) -> Iterator[str]:
    """Rewritten and dropped data files; their own delete files, those that a new delete file takes the place of, and
    those that speak of no live file."""
    yield from match.dangling
    for change in match.changes:
        yield from change.deletes.paths
        if change.fate is not Fate.DELETE:
            yield change.target.path


def _dying(change: FileChange) -> int:
    """Live rows that the table loses with this change, by the counts of its files."""
    if change.fate is Fate.DELETE:
        return change.dead
    return change.target.file.record_count - change.dead_before


def _positions(con: duckdb.DuckDBPyConnection, match: Match) -> Iterator[tuple[TargetFile, Any]]:
    """The positions of each new delete file: what dies now, and what the delete files say that it replaces."""
    left = {c.target.number: c for c in match.changes if c.fate is Fate.DELETE}
    if not left:
        return
    numbers = ", ".join(map(str, left))
    again = ", ".join(str(number) for number, change in left.items() if change.deletes.paths) or "null"
    places = (
        f"select __file, __pos from dead where __file in ({numbers}) "
        f"union all select __file, __pos from deleted where __file in ({again}) and __own"
    )
    for group in positions_by_file(con, places, {number: change.target for number, change in left.items()}):
        yield from group


def _plan_parts(session: _Session, fresh: Fresh, match: Match) -> list[_Part]:
    """Which partitions change. Survivors keep the partition of their file; rows of a file of an older spec belong to
    partitions of the present one, whichever these are, so they join the new rows."""
    settled: dict[tuple[Any, ...], list[FileChange]] = defaultdict(list)
    moved = []
    for change in match.changes:
        if change.fate is not Fate.REWRITE:
            continue
        partition = change.target.file.partition
        if change.target.file.spec_id == session.table.spec().spec_id:
            settled[stored_values([partition[i] for i in range(len(partition))])].append(change)
        else:
            moved.append(change)
    if moved:
        fresh = fresh.with_rows(session.survivors(session.copy(moved)))
    parts = [
        _Part(stored_values(part.values), part, tuple(settled.pop(stored_values(part.values), ())))
        for part in fresh.partitions()
    ]
    return [*parts, *(_Part(stored, None, tuple(changes)) for stored, changes in settled.items())]


def _together(parts: Sequence[_Part], most_rows: int) -> list[list[_Part]]:
    """Partitions in groups: stored ones with up to so many rows, and each other one alone."""
    groups: list[list[_Part]] = []
    rows = 0
    for part in parts:
        if not part.stored:
            continue
        rows += part.rows
        if not groups or rows > most_rows or len(groups[-1]) == PARTS_TOGETHER:
            groups.append([])
            rows = part.rows
        groups[-1].append(part)
    return [*groups, *([part] for part in parts if not part.stored)]


@dataclass(frozen=True, slots=True)
class _Session:
    """What writing needs everywhere: the engine, the table, a local folder, and the folder of the attempt's files."""

    con: duckdb.DuckDBPyConnection
    declaration: Declaration
    table: Table
    folder: Path
    place: str

    @property
    def columns(self) -> int:
        return len(self.table.schema().fields)

    def copy(self, changes: Sequence[FileChange]) -> tuple[LocalFile, ...]:
        return copy_files(self.table, [change.target for change in changes], self.folder / "rewritten")

    def survivors(self, files: Sequence[LocalFile]) -> str:
        """SQL of the live rows of rewritten files that this batch leaves alive."""
        names = ", ".join(quote_name(field.name) for field in self.table.schema().fields)
        return (
            f"select {names} from ({select_rows(files, self.table.schema())}) t "
            "anti join (select __file, __pos from dead union all select __file, __pos from deleted) "
            "using (__file, __pos)"
        )

    def write(
        self, pool: ThreadPoolExecutor, parts: Sequence[_Part], progress: Callable[[int, int], None]
    ) -> tuple[list[Path], list[Future[DataFile]]]:
        """Write light partitions side by side, then the others one by one; files are uploaded meanwhile."""
        light = [part for part in parts if part.light(self.columns)]
        heavy = [part for part in parts if not part.light(self.columns)]
        written: list[Path] = []
        uploads: list[Future[DataFile]] = []
        for done, (part, files) in enumerate(itertools.chain(self._light(light), self._heavy(heavy)), 1):
            for path in files:
                uploads.append(pool.submit(self._upload, path, f"{len(written):05d}.parquet", part.values))
                written.append(path)
            progress(done, len(parts))
        return written, uploads

    def _light(self, parts: Sequence[_Part]) -> Iterator[tuple[_Part, list[Path]]]:
        """Write partitions of one row group each; those with very few rows by one statement."""
        if not parts:
            return
        ((threads,),) = self.con.execute("select current_setting('threads')").fetchall()
        # several threads for one statement would mix the rows of a partition, and gain nothing
        self.con.execute("set threads = 1")
        try:
            with ThreadPoolExecutor(WRITERS) as writers:
                groups = _together(parts, VALUES_TOGETHER // self.columns)
                for files in writers.map(self._write_light, itertools.count(), groups):
                    yield from files
        finally:
            self.con.execute(f"set threads = {threads}")

    def _write_light(self, number: int, parts: Sequence[_Part]) -> list[tuple[_Part, list[Path]]]:
        folder = self.folder / "light" / f"{number:05d}"
        with closing(second(self.con)) as con:
            if len(parts) == 1:  # alone it takes half the time
                folder.mkdir(parents=True)
                self._copy_part(con, parts[0], folder / "data.parquet")
                return [(parts[0], self._finished([folder / "data.parquet"]))]
            by_number = {part.fresh.number: part for part in parts if part.fresh is not None}
            folder.parent.mkdir(parents=True, exist_ok=True)
            con.execute(
                f"copy (from fresh_parts where __part in ({', '.join(map(str, by_number))}) "
                f"order by {self._key('__part')}) to {quote_text(str(folder))} "
                f"({self._format()}, partition_by (__part))"
            )
        return [
            (part, self._finished((folder / f"__part={number}").glob("*.parquet")))
            for number, part in by_number.items()
        ]

    def _key(self, *before: str) -> str:
        return ", ".join([*before, *(quote_name(name) for name in self.declaration.key)])

    def _format(self) -> str:
        schema = self.table.schema()
        return (
            f"format parquet, compression zstd, compression_level {COMPRESSION_LEVEL}, write_bloom_filter false, "
            f"field_ids {field_ids_sql(schema, [f.name for f in schema.fields])}"
        )

    def _heavy(self, parts: Sequence[_Part]) -> Iterator[tuple[_Part, list[Path]]]:
        """Write partitions to as many files as their size asks for."""
        for number, part in enumerate(parts):
            folder = self.folder / "heavy" / f"{number:05d}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._copy_part(self.con, part, folder, f", file_size_bytes {target_file_bytes(self.table.properties)}")
            yield part, self._finished(folder.glob("*.parquet"))

    def _copy_part(self, con: duckdb.DuckDBPyConnection, part: _Part, place: Path, options: str = "") -> None:
        """Write the new and the surviving rows of a partition to a file or, with its size as an option, to a folder."""
        sources = [part.fresh.rows] if part.fresh is not None else []
        local = self.copy(part.rewritten) if part.rewritten else ()
        if local:
            sources.append(self.survivors(local))
        rows = " union all by name ".join(sources)
        # also where they were staged in order: joins mix the row groups of rows that they pass on
        order = f"order by {key}" if (key := self._key()) else ""
        with damage_named(local):
            con.execute(
                f"copy (select * from ({rows}) {order}) to {quote_text(str(place))} ({self._format()}{options})"
            )
        for file in local:
            file.path.unlink()

    def _finished(self, paths: Iterable[Path]) -> list[Path]:
        """Files that DuckDB wrote. A rewritten file whose rows were all replaced, by rows of another partition, leaves
        nothing, and DuckDB an empty file."""
        files = [path for path in sorted(paths) if pq.read_metadata(path).num_rows]
        for path in files:
            fix_lengths(path, self.table.schema(), compression_level=COMPRESSION_LEVEL)
        return files

    def _upload(self, path: Path, name: str, partition: tuple[Any, ...]) -> DataFile:
        uri = self._uri(name)
        with translated(f"file={uri}"):
            upload(self.table.io, path, uri)
        fault_point("after_file")
        return describe(self.table, path, uri=uri, partition=partition)

    def delete(self, target: TargetFile, positions: Any) -> DataFile:
        """Write the position delete file of one data file."""
        uri = self._uri(f"deletes-{target.number:05d}.parquet")
        written = write_deletes(self.table, target, positions, uri=uri, folder=self.folder / "deletes")
        fault_point("after_deletes")
        return written

    def _uri(self, name: str) -> str:
        return self.table.location_provider().new_data_location(f"{self.place}/{name}")


def _read_back(con: duckdb.DuckDBPyConnection, declaration: Declaration, match: Match, paths: Sequence[Path]) -> int:
    """Count the batch's new rows in what was written: by key, or where keys may repeat all but survivors."""
    if not paths:
        return 0
    files = f"read_parquet([{', '.join(quote_text(str(p)) for p in paths)}])"
    if not declaration.keyed:
        ((found,),) = con.execute(f"select count(*) from (select * from {files})").fetchall()
        return int(found) - sum(_surviving(change) for change in match.changes)
    keys = ", ".join(quote_name(k) for k in declaration.key)
    fresh = (
        f"select {keys} from winners anti join (select __row_id from matched where verdict <> 'updated') "
        "using (__row_id)"
    )
    if not any(change.fate is Fate.REWRITE for change in match.changes):
        # nothing but new rows was written: the same keys have the same sum, whatever their order
        written, meant = (_key_sum(con, keys, source) for source in (f"select {keys} from {files}", fresh))
        if written == meant:
            return written[0]
    ((found,),) = con.execute(
        f"select count(*) from (select {keys} from {files}) f join ({fresh}) w using ({keys})"
    ).fetchall()
    return int(found)


def _key_sum(con: duckdb.DuckDBPyConnection, keys: str, source: str) -> tuple[int, int]:
    """How many keys there are, and the sum of their 64-bit hashes."""
    ((count, total),) = con.execute(f"select count(*), coalesce(sum(hash({keys})), 0) from ({source})").fetchall()
    return int(count), int(total)


def _surviving(change: FileChange) -> int:
    """Rows that a rewrite takes over into a new file."""
    if change.fate is not Fate.REWRITE:
        return 0
    return change.target.file.record_count - change.dead_before - change.dead
