"""The last line of a CSV file that says how many records stand above it.

It is cut off the local copy, so that no reader takes it for a record. A file without it was not sent to its end.
"""

from __future__ import annotations

from pathlib import Path

from lakehouse.declaration import Declaration, Trailer
from lakehouse.errors import UnreadableObject
from lakehouse.masking import shown_text
from lakehouse.read.csv.records import Dialect, records

LONGEST = 1 << 20
_ENDS = b"\r\n"


def cut_trailer(path: Path, trailer: Trailer, *, dialect: Dialect, declaration: Declaration, uri: str) -> int | None:
    """Take the trailer off the file; the number of records that it gives, if it is declared to give one.

    Blank lines below it go with it. Raises UnreadableObject if the file does not end with one.
    """
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(max(0, size - LONGEST))
        tail = file.read().rstrip(_ENDS)
        begin = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
        line = tail[begin:]
        if not line.startswith(trailer.starts_with.encode()):
            shown = shown_text(line[:80].decode(errors="backslashreplace"), declaration)
            raise UnreadableObject(
                f"the last line is not the declared trailer: uri={uri} declared={trailer.starts_with!r} found={shown!r}"
            )
        count = (
            _count(line, trailer.count, dialect=dialect, declaration=declaration, uri=uri) if trailer.count else None
        )
        file.truncate(max(0, size - LONGEST) + begin)
    return count


def _count(line: bytes, field: int, *, dialect: Dialect, declaration: Declaration, uri: str) -> int:
    record = next(records([(1, line)], dialect))
    text = record.fields[field - 1] if len(record.fields) >= field else None
    digits = (text or "").strip()
    if not (digits.isascii() and digits.isdigit()):
        found = None if text is None else shown_text(text, declaration)
        raise UnreadableObject(f"the trailer has no number of records: uri={uri} field={field} found={found!r}")
    return int(digits)
