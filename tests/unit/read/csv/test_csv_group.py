"""Small files staged together give the same rows, rejects, lines and counts as one by one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.declaration import Declaration
from lakehouse.errors import UnreadableObject
from lakehouse.model import ObjectDecision
from lakehouse.read.csv import group as csv_group
from lakehouse.stage import StagedObject, create_staging, stage_object, stage_small_objects
from tests.staging_values import declared, planned

COLUMNS: dict[str, Any] = {"id": "int", "v": "string", "n": "decimal(9,2)"}
BODIES: dict[str, bytes] = {
    "plain": b"id,v,n\n1,a,1\n2,b,2.5\n",
    "plain, too": b"id,v,n\n3,,1\n4,d,\n5,e,7\n",
    "no last line feed": b"id,v,n\n6,f,1\n7,g,2",
    "one record": b"id,v,n\n8,h,1",
    "byte order marks": b"\xef\xbb\xbfid,v,n\n9,a,1\n\xef\xbb\xbf,b,1\n10,\xef\xbb\xbf,1\n",
    "crlf": b"id,v,n\r\n1,a,1\r\n2,b,2\r\n",
    "crlf, no last one": b"id,v,n\r\n1,a,1\r\n2,b,2",
    "quotes": b'id,v,n\n1,"a,b",1\n2,"c ""d"" ",2\n3,"",3\n',
    "line ends in quotes": b'id,v,n\n1,"a\nb",1\n2,c,x\n',
    "another order": b"n,v,id\n1,a,11\n2,b,12\n",
    "another order, too": b"n,v,id\n1,a,13\n2,b,14\n",
    "a column less": b"id,v\n15,a\n",
    "a column less, too": b"id,v\n16,b\n17,c\n",
    "rejects": b"id,v,n\n18,a,1\n19,b,x\n,c,1\n",
    "header only": b"id,v,n\n",
    "blank lines": b"id,v,n\n20,a,1\n\n21,b,2\n\n",
    "unknown column": b"id,v,n,m\n1,2,3,4\n",
    "no header": b"",
    "gzip": b"\x1f\x8b\x08\x00\x00",
    "bytes that are no text": b"id,v,n\n1,\xff,1\n2,b,2\n",
    "digits before commas": b"id,v,n\n0,0,0\n1,1,1\n",
}
RAGGED = b"id,v,n\n1,a,1\n2,b\n"
Outcome = tuple[list[Any], list[Any], list[StagedObject | str]]


def items(count: int, *, folder: str = "day=2026-08-30") -> list[ObjectDecision]:
    return [planned(f"s3://landing/in/{folder}/it's {i:03d}.csv", day=date(2026, 8, 1 + i % 28)) for i in range(count)]


def staged(
    folder: Path,
    bodies: Sequence[bytes],
    declaration: Declaration,
    objects: Sequence[ObjectDecision],
    *,
    together: bool,
) -> Outcome:
    with duckdb.connect() as con:
        create_staging(con, declaration)
        pairs = [*zip(objects, bodies, strict=True)]
        results: Sequence[StagedObject | UnreadableObject]
        if together:
            results = stage_small_objects(con, objects=pairs, declaration=declaration, folder=folder)
        else:
            results = [one(con, folder / "object", body, item, declaration) for item, body in pairs]
        rows = con.execute("SELECT * EXCLUDE (__row_id) FROM staged ORDER BY _source_file, _source_line").fetchall()
        rejects = con.execute("SELECT * FROM rejects ORDER BY 1, 2").fetchall()
    assert not [*folder.iterdir()]
    return rows, rejects, [str(r) if isinstance(r, UnreadableObject) else r for r in results]


def one(
    con: duckdb.DuckDBPyConnection, path: Path, body: bytes, item: ObjectDecision, declaration: Declaration
) -> StagedObject | UnreadableObject:
    path.write_bytes(body)
    try:
        return stage_object(con, path=path, item=item, declaration=declaration)
    except UnreadableObject as error:
        return error
    finally:
        path.unlink()


def same(folder: Path, bodies: Sequence[bytes], declaration: Declaration, objects: Sequence[ObjectDecision]) -> Outcome:
    together = staged(folder, bodies, declaration, objects, together=True)
    assert together == staged(folder, bodies, declaration, objects, together=False)
    return together


@pytest.fixture
def grouped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each group statement staged."""
    seen: list[int] = []
    stage = csv_group._stage

    def watched(*arguments: Any) -> Any:
        files = [*stage(*arguments)]
        seen.append(len(files))
        return iter(files)

    monkeypatch.setattr(csv_group, "_stage", watched)
    return seen


@pytest.mark.parametrize(
    "format",
    [{}, {"null_values": ["", "a"]}, {"quoted_empty": "text"}, {"blank_lines": "reject"}],
    ids=["plain", "null words", "quoted empty is text", "blank lines are rejects"],
)
def test_together_is_as_one_by_one(tmp_path: Path, format: dict[str, Any], grouped: list[int]) -> None:
    bodies = [*BODIES.values()]
    rows, rejects, results = same(tmp_path, bodies, declared(COLUMNS, format=format), items(len(bodies)))
    assert sum(r.rows.staged for r in results if isinstance(r, StagedObject)) == len(rows) > 20
    assert sum(r.rows.rejected for r in results if isinstance(r, StagedObject)) == len(rejects) > 2
    # lf, crlf, another order and a column less
    assert len(grouped) == 4
    assert sum(grouped) >= 10


def test_a_columns_own_null_words_are_kept_together(tmp_path: Path, grouped: list[int]) -> None:
    columns = {**COLUMNS, "v": {"type": "string", "null_values": ["a", "b"]}}
    bodies = [BODIES["plain"], BODIES["plain, too"], BODIES["another order"], BODIES["another order, too"]]
    rows, _, _ = same(tmp_path, bodies, declared(columns), items(len(bodies)))
    assert [row[1] for row in rows] == [None, None, "", "d", "e", None, None, None, None]
    assert grouped == [2, 2]


def test_rejects_of_hidden_values_are_masked_together_too(tmp_path: Path, grouped: list[int]) -> None:
    columns = {**COLUMNS, "v": {"type": "string", "pii": True}}
    bodies = [BODIES["plain"], BODIES["rejects"], BODIES["plain, too"]]
    _, rejects, _ = same(tmp_path, bodies, declared(columns), items(len(bodies)))
    assert [(reject[1], reject[4].count("b") + reject[4].count("c")) for reject in rejects] == [(3, 0), (4, 0)]
    assert grouped == [3]


def test_a_ragged_file_sends_all_to_the_other_reader(tmp_path: Path, grouped: list[int]) -> None:
    bodies = [BODIES["plain"], RAGGED, BODIES["quotes"]]
    rows, rejects, _ = same(tmp_path, bodies, declared(COLUMNS), items(3))
    assert (len(rows), len(rejects), grouped) == (6, 1, [0])


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("delimiter", ["|", "\t", ";"])
def test_other_delimiters_and_skipped_lines(tmp_path: Path, end: bytes, delimiter: str, grouped: list[int]) -> None:
    format = {"delimiter": delimiter, "skip_lines": 2}
    lines = [b"# made by", b'# "x', b"id,v,n", b"1,a,1", b"2,b,2"]
    bodies = [end.join(lines).replace(b",", delimiter.encode()) + end * (i % 2) for i in range(5)]
    bodies.append(bodies[0].replace(b'"', b""))
    bodies.append(bodies[1].replace(b'"', b""))
    rows, _, _ = same(tmp_path, bodies, declared(COLUMNS, format=format), items(len(bodies)))
    assert [row[4] for row in rows] == [4, 5] * 7
    assert grouped == [2]


def test_values_of_the_path_are_each_files_own(tmp_path: Path, grouped: list[int]) -> None:
    columns = {**COLUMNS, "shop": {"type": "int", "from_path": "shop"}}
    objects = [
        *items(2, folder="shop=1/day=2026-08-30"),
        *items(2, folder="shop=2/day=2026-08-30"),
        *items(1, folder="shop=x/day=2026-08-30"),
        *items(1),
    ]
    rows, _, results = same(tmp_path, [BODIES["plain"]] * 6, declared(columns), objects)
    assert [row[3] for row in rows] == [1] * 4 + [2] * 4
    assert [isinstance(r, str) for r in results] == [False] * 4 + [True] * 2
    assert grouped == [2, 2]


def test_rows_of_other_objects_stay(tmp_path: Path) -> None:
    declaration = declared(COLUMNS)
    objects = items(4)
    with duckdb.connect() as con:
        create_staging(con, declaration)
        for first in (0, 2):
            pairs = [(objects[i], BODIES["rejects" if i % 2 else "plain"]) for i in (first, first + 1)]
            stage_small_objects(con, objects=pairs, declaration=declaration, folder=tmp_path)
        counts = con.execute("SELECT count(*) FROM staged GROUP BY _source_file ORDER BY _source_file").fetchall()
        assert counts == [(2,), (1,), (2,), (1,)]
        assert con.execute("SELECT count(*) FROM rejects").fetchall() == [(4,)]


def test_files_without_headers(tmp_path: Path, grouped: list[int]) -> None:
    bodies = [
        b"1,a,1\n2,b,2\n",
        b"\xef\xbb\xbf3,c,3\n4,d,4",
        b"5,e,5",
        b"6,f,6\n",
        b"\xef\xbb\xbf7,g,7\r\n8,h,8",
        b"9,i,9\r\n",
    ]
    rows, _, _ = same(tmp_path, bodies, declared(COLUMNS, format={"header": False}), items(len(bodies)))
    assert [row[0] for row in rows] == [*range(1, 10)]
    assert grouped == [4, 2]


@pytest.mark.parametrize("format", [{"columns_by_position": True}, {"quote": None}])
def test_other_ways_to_read_a_header(tmp_path: Path, grouped: list[int], format: dict[str, Any]) -> None:
    bodies = [*BODIES.values()]
    rows, _, _ = same(tmp_path, bodies, declared(COLUMNS, format=format), items(len(bodies)))
    assert len(rows) > 10
    assert sum(grouped) > 5


def test_hidden_values_are_masked_together_as_alone(tmp_path: Path, grouped: list[int]) -> None:
    columns = {**COLUMNS, "v": {"type": "string", "pii": True}}
    bodies = [BODIES["rejects"], BODIES["plain"], b"id,v,n\n22,secret,x\n"]
    _, rejects, _ = same(tmp_path, bodies, declared(columns), items(len(bodies)))
    assert grouped[0] == 3
    assert [raw for *_, raw in rejects] == ["19,***,x", ",***,1", "22,***,x"]
