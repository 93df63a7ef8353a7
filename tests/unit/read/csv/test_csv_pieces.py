"""A file that is cut gives the same rows, rejects and lines as one that is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.engines.duckdb import open_session
from lakehouse.errors import ConfigurationError
from lakehouse.read.csv import pieces as csv_pieces
from lakehouse.read.csv import reader as reader
from lakehouse.read.csv import survey as csv_survey
from lakehouse.read.csv.records import Dialect
from tests.staging_values import Result, Staging, declared

COLUMNS = {"id": "int", "v": "string", "n": "int"}


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Cuts after every record; notes how many pieces each file had."""
    monkeypatch.setattr(csv_survey, "BLOCK", 4)
    monkeypatch.setattr(csv_pieces, "SHORTEST", 1)
    monkeypatch.setattr(csv_pieces, "SHORTEST_PER_COLUMN", 0)
    seen: list[int] = []

    @contextmanager
    def watched(*arguments: Any, **options: Any) -> Iterator[tuple[csv_pieces.Piece, ...]]:
        with csv_pieces.cut(*arguments, **options) as found:
            seen.append(len(found))
            yield found

    monkeypatch.setattr(reader, "cut", watched)
    yield seen


def stage(folder: Path, data: bytes, *, threads: int = 2, **changes: Any) -> Result:
    with duckdb.connect(config={"threads": threads}) as con:
        result = Staging(con, folder, declared(COLUMNS, **changes)).stage(data)
        assert con.execute("SELECT current_setting('preserve_insertion_order')").fetchall() == [(True,)]
    assert [path.name for path in folder.iterdir()] == ["object"]
    return result


def by_the_letter(folder: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> Result:
    with monkeypatch.context() as patch:
        patch.setattr(reader, "survey_file", lambda _: None)
        return stage(folder, data)


BODIES = {
    "last line without a line feed": b"1,a,1\n2,b,2\n3,c,3",
    "crlf": b"1,a,1\r\n2,b,2\r\n3,c,3\r\n",
    "delimiters and line ends in quotes": b'1,"a,b",1\n2,"c\nd\n",2\n3,"e ""f"" g",3\n4,"\n",x\n5,y,5\n',
    "rejects in every piece": b"1,a,x\n2,b,2\ny,c,3\n4,d,z\n5,e,5\n,f,6\n",
    "one record": b"1,a,1\n",
    "no record": b"",
    "a byte order mark where a record begins": b"1,a,1\n\xef\xbb\xbf2,b,2\n3,c,3\n",
    "a long line": b"1," + b"x" * 100_000 + b",1\n2,b,2\n3,c,z\n4,d,4\n",
    "ragged in the last piece": b"1,a,1\n2,b,2\n3,c,3\n4,d\n",
    "a blank line in the last piece": b"1,a,1\n2,b,2\n3,c,3\n\n",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_pieces_read_as_the_whole(
    body: bytes, tmp_path: Path, pieces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for head in (b"id,v,n\n", b"\xef\xbb\xbfid,v,n\n"):
        data = (head.replace(b"\n", b"\r\n") if b"\r" in body else head) + body
        assert stage(tmp_path, data) == by_the_letter(tmp_path, data, monkeypatch)
    assert max(pieces, default=1) > 1 or body.count(b"\n") < 2 or b"\n\n" in body


def test_skipped_lines_stay_in_the_first_piece(tmp_path: Path, pieces: list[int]) -> None:
    data = b"# one\n# two\n# three\nid,v,n\n1,a,1\n2,b,x\n3,c,3\n"
    result = stage(tmp_path, data, format={"skip_lines": 3})
    assert (result.lines, result.rejected_lines) == ([5, 7], [6])
    assert pieces[0] > 1


def test_one_thread_reads_the_whole(tmp_path: Path, pieces: list[int]) -> None:
    assert stage(tmp_path, b"id,v,n\n1,a,1\n2,b,2\n3,c,3\n", threads=1).lines == [2, 3, 4]
    assert pieces == [1]


def test_no_more_pieces_than_the_threads_need(tmp_path: Path, pieces: list[int]) -> None:
    body = b"".join(b"%d,v,%d\n" % (i, i) for i in range(1000))
    result = stage(tmp_path, b"id,v,n\n" + body)
    assert result.lines == [*range(2, 1002)]
    assert [row[0] for row in result.rows] == [*range(1000)]
    assert 4 <= pieces[0] <= 2 * csv_pieces.PER_THREAD


def test_large_pieces_keep_their_lines_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_pieces, "SHORTEST", 1 << 20)
    rows = 200_000
    body = b"".join(b"%d,%s,%s\n" % (i, b"x" * 60, b"no" if i % 50_000 == 7 else b"5") for i in range(rows))
    spill = tmp_path / "spill"
    spill.mkdir()
    (tmp_path / "in").mkdir()
    config = {"threads": 2, "memory_limit": "256MB", "temp_directory": str(spill)}
    with duckdb.connect(config=config) as con:
        staging = Staging(con, tmp_path / "in", declared(COLUMNS))
        counts = staging.stage(b"id,v,n\n" + body).counts
        wrong = con.execute("SELECT count(*) FROM staged WHERE _source_line <> id + 2").fetchall()
        rejects = con.execute("SELECT line_number, raw FROM rejects ORDER BY 1").fetchall()
    assert (counts.read, counts.rejected, wrong) == (rows, 4, [(0,)])
    assert [line for line, _ in rejects] == [9, 50_009, 100_009, 150_009]
    assert all(raw.startswith(f"{line - 2},") for line, raw in rejects)


def test_a_full_disk_is_told(tmp_path: Path, pieces: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ConfigurationError("cannot write to the spill folder: No space left on device: path=x")

    monkeypatch.setattr(csv_pieces, "_copy", full)
    with pytest.raises(ConfigurationError, match="spill"):
        stage(tmp_path, b"id,v,n\n1,a,1\n2,b,2\n3,c,3\n")
    assert [path.name for path in tmp_path.iterdir()] == ["object"]
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="spill"):
        csv_pieces._copy(tmp_path / "object", tmp_path / "none" / "piece", 0, 1)


@pytest.mark.parametrize("block", [1, 5, 16, 1000])
def test_cuts_stand_between_records(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_survey, "BLOCK", block)
    data = b'a,b\n1,"x\ny"\n2,"""z"""\n3,"p ""q"" "\n4,r'
    found = csv_survey.survey(BytesIO(data), Dialect())
    assert found is not None
    assert (found.records, found.multiline) == (5, True)
    for cut in found.cuts:
        before = data[: cut.offset]
        assert before.endswith(b"\n")
        assert before.count(b'"') % 2 == 0
        assert (cut.lines, cut.records) == (before.count(b"\n"), before.count(b"\n") - (b"y" in before))


@pytest.mark.parametrize(
    ("text", "regular"),
    [
        (b'1,"a "" b"\n', True),
        (b'1," a "\n', True),
        (b'1,"he said, ""no"" "\n2," "\n', True),
        (b'1, "a"\n', False),
        (b'1,"a" \n', False),
        (b'1,"a" ,2\n', False),
        (b'1,"" ,2\n', False),
        (b'1, """a"""\n', False),
        (b'1,"""a""" \n', False),
    ],
)
@pytest.mark.parametrize("few", [1, 1 << 30])
def test_blanks_matter_around_quoted_texts_alone(
    text: bytes, regular: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_survey, "_FEW", few)
    assert (csv_survey.survey(BytesIO(b"id,v\n" + text), Dialect()) is not None) is regular


def test_a_wide_file_is_cut_less(tmp_path: Path) -> None:
    """Every piece is a branch of the statement, and a branch of many columns takes long to plan."""
    path = tmp_path / "wide.csv"
    path.write_bytes(b"a\n" * (9 << 20))
    with path.open("rb") as binary:
        regular = csv_survey.survey(binary, Dialect())
    assert regular is not None
    with closing(open_session(spill=tmp_path / "spill", memory_bytes=1 << 28, threads=2)) as con:
        for columns, pieces in ((10, 2), (200, 1)):
            with csv_pieces.cut(con, path, regular, header_lines=1, columns=columns) as found:
                assert len(found) == pieces
