"""However a text file is damaged, no value of a `pii: true` column is in its rejects, reasons or errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.errors import UnreadableObject
from tests.staging_values import Staging, declared

SHOWN = 6
"""Characters of a value that must not be shown together."""
COLUMNS: dict[str, Any] = {
    "id": "int",
    "mail": {"type": "string", "pii": True},
    "n": "int",
    "note": "string",
    "who": {"type": "string", "from": "who", "pii": True},
}
CORES = ("Qx7mZk2pVw", "annlovelace", "4915550123")
AROUND = ["", " ", "@x.org", '"', "'", ",", "\\", "<", "&", "é", "\n", "/>", "}", ":"]
NOISE = [
    b'"',
    b"'",
    b",",
    b"\n",
    b"\r",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"<",
    b">",
    b"&",
    b"=",
    b"\0",
    b"\xff",
    b"Q",
]
KINDS = ("csv", "jsonl", "json", "xml", "nested")


def values(draw: st.DrawFn) -> tuple[str, str]:
    """Two hidden values, each with one of CORES in it."""
    first, second = (
        draw(st.sampled_from(AROUND)) + draw(st.sampled_from(CORES)) + draw(st.sampled_from(AROUND)) for _ in range(2)
    )
    return first, second


def written(kind: str, rows: list[tuple[str, str, str, str]]) -> bytes:
    """Rows of (id, mail, n, who) in a format; with quotes in the CSV where a value needs them."""

    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if set(text) & set('",\n\r') else text

    if kind == "csv":
        lines = [f"{i},{quoted(mail)},{n},note,{quoted(who)}" for i, mail, n, who in rows]
        return "\n".join(["id,mail,n,note,who", *lines, ""]).encode()
    if kind == "xml":
        records = (
            f"<r who={quoteattr(who)}><id>{i}</id><mail>{escape(mail)}</mail><n>{n}</n><note>note</note></r>"
            for i, mail, n, who in rows
        )
        return f"<all>{''.join(records)}</all>".encode()
    if kind == "nested":
        found = [{"id": i, "o": {"mail": mail, "n": n, "note": "note"}, "who": [who]} for i, mail, n, who in rows]
    else:
        found = [{"id": i, "mail": mail, "n": n, "note": "note", "who": who} for i, mail, n, who in rows]
    if kind == "json":
        return json.dumps(found, ensure_ascii=False).encode()
    return "\n".join(json.dumps(record, ensure_ascii=False) for record in found).encode()


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """A format, what becomes of unknown columns, and a file with some bad values and one damage."""
    kind = draw(st.sampled_from(KINDS))
    rows = []
    for i in range(draw(st.integers(1, 4))):
        mail, who = values(draw)
        rows.append((draw(st.sampled_from([str(i), "x"])), mail, draw(st.sampled_from(["1", "z", ""])), who))
    data = written(kind, rows)
    place = draw(st.integers(0, len(data)))
    match draw(st.sampled_from(["nothing", "cut off", "cut out", "insert", "replace", "lose a header"])):
        case "cut off":
            data = data[:place]
        case "cut out":
            data = data[:place] + data[place + 1 :]
        case "insert":
            data = data[:place] + draw(st.sampled_from(NOISE)) + data[place:]
        case "replace":
            data = data[:place] + draw(st.sampled_from(NOISE)) + data[place + 1 :]
        case "lose a header":
            data = data.partition(b"\n")[2]
    return kind, draw(st.sampled_from(["reject", "ignore", "rescue"])), data


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    with duckdb.connect(config={"threads": 1}) as con:
        yield con, tmp_path_factory.mktemp("masking")


def said(kind: str, unknown: str, data: bytes, session: tuple[duckdb.DuckDBPyConnection, Path]) -> str:
    """Everything that is shown of a file."""
    columns = dict(COLUMNS)
    format: dict[str, Any] = {"type": kind}
    if kind == "xml":
        format["row_element"] = "r"
        columns["who"] = {**COLUMNS["who"], "from": "_who"}
    if kind == "nested":
        format["type"] = "jsonl"
        columns |= {name: spec_from(COLUMNS[name], f"o.{name}") for name in ("mail", "n", "note")}
        columns["who"] = {"type": "list<string>", "pii": True}
    staging = Staging(*session, declared(columns, format=format, unknown_columns=unknown))
    try:
        return str(staging.stage(data).rejects)
    except UnreadableObject as error:
        return str(error)


def spec_from(spec: Any, origin: str) -> dict[str, Any]:
    return {**(spec if isinstance(spec, dict) else {"type": spec}), "from": origin}


def check(session: tuple[duckdb.DuckDBPyConnection, Path], case: tuple[str, str, bytes]) -> None:
    shown = said(*case, session).lower()
    for core in CORES:
        for i in range(len(core) - SHOWN + 1):
            assert core[i : i + SHOWN].lower() not in shown


@settings(max_examples=100)
@given(damaged())
@example(("csv", "reject", b"x,annlovelace,1,note,4915550123\n"))
@example(("csv", "ignore", b"id,mai,n,note,whoo\nx,annlovelace,1,note,4915550123\n"))
@example(("jsonl", "ignore", b'{"id": 1, "annlovelace": 1, "annlovelace": 2}'))
@example(("xml", "ignore", b"<all><annlovelace/></all>"))
def test_no_hidden_value_is_shown_of_a_damaged_file(
    session: tuple[duckdb.DuckDBPyConnection, Path], case: tuple[str, str, bytes]
) -> None:
    check(session, case)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@settings(max_examples=5000)
@given(damaged())
def test_no_hidden_value_is_shown_of_any_damaged_file(
    session: tuple[duckdb.DuckDBPyConnection, Path], case: tuple[str, str, bytes]
) -> None:
    check(session, case)
