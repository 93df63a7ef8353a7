"""What stays of an attempt that ended unpublished: its record, its rejects, its staged rows (DESIGN §3).

Never touches the target or the chain of manifests; operators, `status` and the sensor read what is written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from lakehouse import naming
from lakehouse.masking import hidden_columns
from lakehouse.model import GateResult, Reference, State
from lakehouse.naming import quote_name, quote_text
from lakehouse.storage import Storage

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

FORMAT = 1


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


def write_record(storage: Storage, root: str, record: AttemptRecord) -> None:
    """Leave the record below `root` (`naming.incarnation_root`)."""
    body = {"format": FORMAT, **asdict(record), "ended_at": record.ended_at.isoformat()}
    storage.put(root + naming.attempt_record(record.attempt_id), json.dumps(body, indent=1).encode())


def read_records(storage: Storage, root: str) -> Iterator[AttemptRecord]:
    """Every record below `root`, newest first."""
    keys = [storage.key(item.uri) for item in storage.list(root + naming.attempts_folder())]
    bodies = [json.loads(data) for data in storage.read_many(keys) if data is not None]
    records = [_parse(body) for body in bodies if body.get("format") == FORMAT]
    yield from sorted(records, key=lambda r: r.ended_at, reverse=True)


def _parse(body: dict[str, object]) -> AttemptRecord:
    fields = dict(body)
    fields.pop("format")
    fields["state"] = State(str(body["state"]))
    fields["ended_at"] = datetime.fromisoformat(str(body["ended_at"]))
    fields["objects"] = tuple(tuple(o) for o in body["objects"])  # type: ignore[attr-defined]
    fields["gates"] = tuple(GateResult(**g) for g in body["gates"])  # type: ignore[attr-defined]
    rejects = body["rejects"]
    fields["rejects"] = Reference(**rejects) if isinstance(rejects, dict) else None
    return AttemptRecord(**fields)  # type: ignore[arg-type]


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
