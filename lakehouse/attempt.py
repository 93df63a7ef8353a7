"""What stays of an attempt that ended unpublished: its record, its rejects, its staged rows (DESIGN §3).

Never touches the target or the chain of manifests; operators, `status` and the sensor read what is written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import duckdb
from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError

from lakehouse import naming
from lakehouse.errors import DataError
from lakehouse.masking import hidden_columns
from lakehouse.model import GateResult, Reference, State
from lakehouse.naming import quote_name, quote_text
from lakehouse.storage import Storage

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

FORMAT = 1
CLOCKS_DIFFER = timedelta(minutes=1)
"""By so much the storage's clock and ours may."""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt that did not publish. `objects` are (uri, etag, version id), of a blocked one those that the gates
    were asked about; `command` asks for the same load. `exit_code` and `next` are those of the error that ended it."""

    attempt_id: str
    batch_id: str
    context: str
    run_id: str
    bookmark_version: int
    declaration: str
    state: State
    step: str
    error: str
    ended_at: datetime
    objects: tuple[tuple[str, str, str | None], ...]
    gates: tuple[GateResult, ...] = ()
    rejects: Reference | None = None
    staging: str = ""
    command: str = ""
    exit_code: int = 3
    next: str = ""


_RECORDS = TypeAdapter(AttemptRecord)


def write_record(storage: Storage, root: str, record: AttemptRecord) -> None:
    """Leave the record below `root` (`naming.incarnation_root`)."""
    body = {"format": FORMAT, **asdict(record), "ended_at": record.ended_at.isoformat()}
    storage.put(root + naming.attempt_record(record.attempt_id), json.dumps(body, indent=1).encode())


def read_records(storage: Storage, root: str, *, answered: datetime | None = None) -> Iterator[AttemptRecord]:
    """Every record below `root`, newest first. Raises DataError for one that is no record of a format that is known;
    one that was surely written before `answered`, when a batch made it history, is left out then."""
    items = [*storage.list(root + naming.attempts_folder())]
    records = []
    for item, data in zip(items, storage.read_many([storage.key(item.uri) for item in items]), strict=True):
        try:
            records += [_parse(data, uri=item.uri)] if data is not None else []
        except DataError:
            if answered is None or item.last_modified >= answered - CLOCKS_DIFFER:
                raise
    yield from sorted(records, key=lambda r: r.ended_at, reverse=True)


class _Stored(BaseModel):
    """A record as it lies there; what an earlier release did not write yet has the default of its field."""

    format: Literal[1]
    ended_at: AwareDatetime


def _parse(data: bytes, *, uri: str) -> AttemptRecord:
    try:
        _Stored.model_validate_json(data)
        return _RECORDS.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "document"
        raise DataError(
            f"the record of an attempt cannot be read: uri={uri} {place}: {first['msg']}",
            next=f"restore {uri} from the bucket's versions, or delete it: no load needs it, only what is told of the "
            "attempt is lost",
        ) from error


def rejects_parquet(con: duckdb.DuckDBPyConnection, folder: Path) -> bytes | None:
    """The staged rejects as Parquet, in the order of file and line; None if there are none."""
    ((count,),) = con.execute("select count(*) from rejects").fetchall()
    if not count:
        return None
    path = folder / "rejects.parquet"
    con.execute(
        f"copy (select * from rejects order by uri, line_number) to {quote_text(str(path))} "
        "(format parquet, compression zstd)"
    )
    return path.read_bytes()


def export_staging(
    con: duckdb.DuckDBPyConnection,
    storage: Storage,
    *,
    declaration: Declaration,
    root: str,
    place: str,
    folder: Path,
) -> str:
    """Copy the staged rows of a blocked batch to `place` below `root`, so that they can be looked at; returns the URI.

    Columns whose values are hidden are left out: a hash of a name or number is guessed by hashing all of them.
    A marker says that there is something to clear later: without it, every load would pay for a listing.
    """
    path = folder / "staged.parquet"
    left_out = ", ".join(quote_name(name) for name in ("__row_id", *hidden_columns(declaration)))
    con.execute(
        f"copy (select * exclude ({left_out}) from staged) to {quote_text(str(path))} "
        "(format parquet, compression zstd)"
    )
    storage.put(root + naming.staging_marker(declaration.context), b"")
    storage.upload(path, root + place + "staged.parquet")
    path.unlink()
    return storage.uri(root + place + "staged.parquet")


def clear_staging(storage: Storage, root: str, *, context: str) -> None:
    """Remove exported staging of earlier attempts: the next successful batch of the source makes it superfluous."""
    marker = root + naming.staging_marker(context)
    if storage.read(marker) is None:
        return
    for item in list(storage.list(root + naming.staging_root(context))):
        if storage.key(item.uri) != marker:
            storage.delete(storage.key(item.uri))
    storage.delete(marker)
