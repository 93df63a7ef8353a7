"""Compressed objects and other encodings: the rows of the plain file, or the object is refused; nothing is lost."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import UnreadableObject
from lakehouse.read import plain
from lakehouse.read.plain import make_plain
from tests.staging_values import declared, planned, staging

PLAIN = b"id,v\n1,a\n2,b\n"
URI = "s3://landing/a.csv"


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


PACKERS = {"gzip": gzip.compress, "bz2": bz2.compress, "zstd": zstd}
packed = pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)


@packed
def test_a_compressed_file_has_the_rows_of_the_plain_one(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    with staging(tmp_path, declared({"id": "int", "v": "string"})) as session:
        assert session.stage(pack(PLAIN)).rows == [(1, "a"), (2, "b")]
    with staging(tmp_path, declared({"id": "int", "v": "string"}, format={"type": "jsonl"})) as session:
        assert session.stage(pack(b'{"id": 1, "v": "a"}\n')).rows == [(1, "a")]


@packed
def test_every_member_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """R27: tools append compressed files to each other."""
    with staging(tmp_path, declared({"id": "int", "v": "string"})) as session:
        assert session.stage(pack(b"id,v\n1,a\n") + pack(b"2,b\n3,c\n")).rows == [(1, "a"), (2, "b"), (3, "c")]


@packed
def test_a_member_of_no_bytes_is_one(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    empty = pack(b"")
    assert unpacked(tmp_path, empty + pack(b"id,v\n") + empty + empty + pack(b"1,a\n") + empty) == b"id,v\n1,a\n"


def test_frames_to_be_skipped_are_skipped(tmp_path: Path) -> None:
    assert unpacked(tmp_path, b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd" + zstd(PLAIN)) == PLAIN


def test_an_empty_compressed_file_is_empty(tmp_path: Path) -> None:
    assert [unpacked(tmp_path, pack(b"")) for pack in PACKERS.values()] == [b"", b"", b""]


@packed
@settings(max_examples=60)
@given(data=st.data())
def test_a_file_that_is_cut_or_has_more_behind_it_is_refused(
    tmp_path_factory: pytest.TempPathFactory, pack: Callable[[bytes], bytes], data: st.DataObject
) -> None:
    whole = pack(PLAIN * 50)
    cut = data.draw(st.integers(12, len(whole) - 1))
    folder = tmp_path_factory.mktemp("cut")
    for damaged in (whole[:cut], whole + b"id,v\n"):
        with pytest.raises(UnreadableObject, match=f"file is damaged: uri={URI}"):
            unpacked(folder, damaged)
        assert (folder / "object").read_bytes() == damaged
        assert [path.name for path in folder.iterdir()] == ["object"]


def test_what_grows_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "ALWAYS_ALLOWED", 1 << 20)
    bomb = bz2.compress(bytes(8 << 20))
    assert len(bomb) * plain.MOST_TIMES < 8 << 20
    with pytest.raises(UnreadableObject, match="unpacks to more than 1,048,576 bytes"):
        unpacked(tmp_path, bomb)
    monkeypatch.setattr(plain, "ALWAYS_ALLOWED", 8 << 20)
    assert len(unpacked(tmp_path, bomb)) == 8 << 20


def test_what_is_compressed_twice_or_otherwise_is_refused(tmp_path: Path) -> None:
    with staging(tmp_path, declared()) as session:
        with pytest.raises(UnreadableObject, match="compressed more than once"):
            session.stage(gzip.compress(zstd(PLAIN)))
        with pytest.raises(UnreadableObject, match="files of xz are not read"):
            session.stage(b"\xfd7zXZ\x00....")
        assert session.empty


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("type", ["csv", "jsonl"])
def test_a_declared_encoding_is_read(tmp_path: Path, encoding: str, type: str) -> None:
    """R17"""
    text = "id,v\r\n1,café\r\n2,ok\r\n" if type == "csv" else '{"id": 1, "v": "café"}\n{"id": 2, "v": "ok"}\n'
    declaration = declared({"id": "int", "v": "string"}, format={"type": type, "encoding": encoding})
    with staging(tmp_path, declaration) as session:
        assert session.stage(text.encode(encoding)).rows == [(1, "café"), (2, "ok")]
        both = session.stage(gzip.compress(text.encode(encoding)), item=planned("s3://landing/in/day=2026-08-30/b"))
        assert both.rows == [(1, "café"), (2, "ok")]


def test_without_a_declaration_rows_with_other_bytes_are_rejects(tmp_path: Path) -> None:
    """R17"""
    with staging(tmp_path, declared({"id": "int", "v": "string"})) as session:
        result = session.stage("id,v\n1,café\n2,ok\n".encode("latin-1"))
        assert (result.rows, result.rejected_lines) == ([(2, "ok")], [2])
        with pytest.raises(UnreadableObject, match=r"the file is UTF-16: .*; declare its encoding"):
            session.stage(PLAIN.decode().encode("utf-16"))


@pytest.mark.parametrize(
    ("encoding", "bad"),
    [("utf-16-le", b"\x00\xd8"), ("cp1252", b"\x81"), ("shift_jis", b"\x81\xff"), ("ascii", b"\xe9")],
)
def test_a_row_with_bytes_that_are_no_text_is_a_reject(tmp_path: Path, encoding: str, bad: bytes) -> None:
    before, after = "id,v\n1,a\n2,".encode(encoding), "\n3,c\n".encode(encoding)
    declaration = declared({"id": "int", "v": "string"}, format={"type": "csv", "encoding": encoding})
    with staging(tmp_path, declaration) as session:
        result = session.stage(before + bad + after)
        assert (result.rows, result.rejected_lines) == ([(1, "a"), (3, "c")], [3])


@pytest.mark.parametrize(
    ("encoding", "data", "reason"),
    [
        ("utf-16", "id,v\n1,a\n".encode("utf-16-le"), "declare utf-16-le or utf-16-be"),
        ("utf-16", b"id,v\n1,a\n", "declare utf-16-le or utf-16-be"),
        ("utf-32", b"id,v\n1,a\n", "reason="),
    ],
)
def test_a_file_that_is_not_in_the_declared_encoding_is_refused(
    tmp_path: Path, encoding: str, data: bytes, reason: str
) -> None:
    with staging(tmp_path, declared(format={"type": "csv", "encoding": encoding})) as session:
        with pytest.raises(UnreadableObject, match=f"the text is not {encoding}: uri=s3://.*{reason}"):
            session.stage(data)
        assert session.empty


@settings(max_examples=50)
@given(text=st.text(st.characters(codec="utf-16"), max_size=300), chunk=st.integers(1, 9))
def test_characters_across_chunks_stay_whole(tmp_path_factory: pytest.TempPathFactory, text: str, chunk: int) -> None:
    path = tmp_path_factory.mktemp("chunks") / "object"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "CHUNK", chunk)
        path.write_bytes(text.encode("utf-16-le"))
        make_plain(path, uri=URI, encoding="utf-16-le")
    assert path.read_bytes() == text.encode()


def unpacked(folder: Path, data: bytes) -> bytes:
    path = folder / "object"
    path.write_bytes(data)
    make_plain(path, uri=URI, encoding=None)
    return path.read_bytes()
