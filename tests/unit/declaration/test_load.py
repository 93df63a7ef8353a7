"""Files and documents: which are ours, duplicates over files, and what is reported of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.declaration import (
    find_declaration,
    load_declarations,
    parse_declaration_file,
    parse_declarations,
    validate_all,
)
from lakehouse.errors import ConfigurationError, DeclarationError, UsageError
from lakehouse.settings import read_settings
from tests.declaration_text import document

ASSETS = Path(__file__).parents[3] / "assets" / "defs"


def put(root: Path, name: str, content: str | bytes) -> Path:
    path = root / name / "defs.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_the_declared_tables_are_right() -> None:
    orders, readings = load_declarations(ASSETS, {})
    assert (orders.table, orders.key, readings.table, readings.key) == (
        "analytics.orders", ("order_id",), "telemetry.readings", ("device_id", "read_at"),
    )  # fmt: skip


def test_several_documents_and_other_components(tmp_path: Path) -> None:
    other = "type: dagster.Other\nattributes: {a: &x 1, b: *x, c: '{{ load(1) }}'}\n"
    path = put(tmp_path, "a", f"{other}---\n{document()}---\n{document(table='analytics.returns')}---\n")
    first, second = parse_declaration_file(path, {})
    assert [(d.table, d.document) for d in (first, second)] == [("analytics.orders", 1), ("analytics.returns", 2)]


def test_good_ones_and_error_lines(tmp_path: Path) -> None:
    put(tmp_path, "a", "\ufeff" + document())
    put(tmp_path, "b", document(table="x.y", key="[no]"))
    put(tmp_path, "c", "type: [\n")
    put(tmp_path, "d", b"type: x\n# caf\xe9\n")
    put(tmp_path, "e", "type: lakehouse.components.IcebergTabel\n")
    put(tmp_path, "f", "")
    put(tmp_path, "g", "attributes: {}\n")
    put(tmp_path, "h", "type: lakehouse.components.IcebergTable\nkey: [a]\n")
    good, lines = validate_all(tmp_path, {})
    assert [d.table for d in good] == ["analytics.orders"]
    assert [line.removeprefix(f"{tmp_path}/") for line in lines] == [
        "b/defs.yaml:6:9: key[0]: no column 'no'; did you mean n?",
        "c/defs.yaml:2:1: broken YAML: while parsing a flow node, expected the node content, but found '<stream end>'",
        "d/defs.yaml:2:6: the file is not UTF-8; save it as UTF-8",
        "e/defs.yaml:1:7: type: got 'lakehouse.components.IcebergTabel'; expected lakehouse.components.IcebergTable",
        "f/defs.yaml:1:1: the file is empty; expected type: lakehouse.components.IcebergTable",
        "g/defs.yaml:1:1: type: missing; expected type: lakehouse.components.IcebergTable",
        "h/defs.yaml:2:1: key: unknown field; it belongs into attributes",
        "h/defs.yaml:1:1: attributes: missing; expected the declaration of a table",
    ]
    with pytest.raises(DeclarationError):
        load_declarations(tmp_path, {})


@pytest.mark.parametrize("again", ["analytics.orders", "Analytics.Orders"])
def test_a_table_is_declared_once(tmp_path: Path, again: str) -> None:
    first = put(tmp_path, "a", document())
    second = put(tmp_path, "b", document(table=again))
    good, lines = validate_all(tmp_path, {})
    assert good == ()
    assert lines == (
        f"{second}:3:10: table: '{again}' is declared already as analytics.orders in {first}:3; keep one of them",
    )


def test_a_table_among_the_ledgers_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a", document(table="Lakehouse_ops.files", key="[no]"))
    assert read_settings({}).ops_namespace == "lakehouse_ops"
    told = f"{path}:3:10: table: got '{{}}'; {{}} holds the ledger, choose another namespace"
    assert validate_all(tmp_path, {})[1][0] == told.format("Lakehouse_ops.files", "lakehouse_ops")
    path.write_text(document(table="lakehouse_ops.files"))
    env = {"LAKEHOUSE_OPS_NAMESPACE": "own.ops"}
    assert [d.table for d in load_declarations(tmp_path, env)] == ["lakehouse_ops.files"]
    path.write_text(document(table="own.ops.x"))
    assert validate_all(tmp_path, env) == ((), (told.format("own.ops.x", "own.ops"),))


def test_find(tmp_path: Path) -> None:
    put(tmp_path, "a", document())
    assert find_declaration(tmp_path, "analytics.orders", {}).table == "analytics.orders"
    with pytest.raises(UsageError, match=r"did you mean analytics\.orders"):
        find_declaration(tmp_path, "analytics.order", {})
    put(tmp_path, "b", document(table="x.y", key="[no]"))
    assert find_declaration(tmp_path, "analytics.orders", {}).table == "analytics.orders"
    with pytest.raises(DeclarationError, match=r"b/defs\.yaml:6:9"):
        find_declaration(tmp_path, "x.y", {})


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        load_declarations(tmp_path / "absent", {})


def sql_beside(tmp_path: Path, name: str, content: bytes | None, **fields: str) -> Path:
    path = put(tmp_path, "orders", document(sql=name, **fields))
    if content is not None:
        (path.parent / "sub").mkdir()
        (path.parent / name).write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["orders.sql", "sub/orders.sql"])
def test_sql_is_read_from_a_file_beside_the_declaration(tmp_path: Path, name: str) -> None:
    path = sql_beside(tmp_path, name, "\ufeffselect *\nfrom staged\n".encode())
    (declaration,) = parse_declaration_file(path, {})
    assert declaration.sql is not None
    assert (declaration.sql.file, declaration.sql.text) == (name, "select *\nfrom staged\n")


def test_the_hash_is_about_the_text_of_the_sql_and_not_its_name(tmp_path: Path) -> None:
    (without,) = parse_declaration_file(put(tmp_path, "without", document()), {})
    path = sql_beside(tmp_path, "a.sql", b"select 1")
    (first,) = parse_declaration_file(path, {})
    (path.parent / "b.sql").write_bytes(b"select 1")
    path.write_text(document(sql="b.sql"))
    (renamed,) = parse_declaration_file(path, {})
    (path.parent / "b.sql").write_bytes(b"select 2")
    (other,) = parse_declaration_file(path, {})
    assert without.hash != first.hash == renamed.hash != other.hash


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("orders.sql", None, "the file 'orders.sql' cannot be read in {folder}: No such file or directory"),
        ("sub", b"", "the file 'sub' cannot be read in {folder}: Is a directory"),
        ("orders.sql", b" \n", "the file 'orders.sql' is empty; expected a SELECT over staged"),
        ("orders.sql", b"select '\0'", "the file 'orders.sql' holds a NUL character; expected a SELECT over staged"),
        ("orders.sql", b"select '\xff'", "the file 'orders.sql' is not UTF-8; save it as UTF-8"),
        ("../orders.sql", None, "got '../orders.sql'; expected a file in the folder of the declaration"),
        ("sub/../orders.sql", None, "got 'sub/../orders.sql'; expected a file in the folder of the declaration"),
        ("/etc/hostname", None, "got '/etc/hostname'; expected a file in the folder of the declaration"),
        ("''", None, "got ''; expected a file in the folder of the declaration, such as orders.sql"),
        ("3", None, "got 3; expected a file in its folder such as orders.sql"),
        ("{file: a.sql, text: select 1}", None, "got a mapping; expected a file in its folder such as orders.sql"),
    ],
)
def test_sql_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = sql_beside(tmp_path, name, None if name == "sub" else content, key="[nope]")
    if name == "sub":
        (path.parent / "sub").mkdir()
    with pytest.raises(DeclarationError) as caught:
        parse_declaration_file(path, {})
    of_key, of_sql = caught.value.message.splitlines()
    assert "key[0]: no column 'nope'" in of_key
    assert of_sql.startswith(f"{path}:9:8: sql: {message.format(folder=path.parent)}")


def test_a_declaration_without_a_file_has_no_sql() -> None:
    with pytest.raises(DeclarationError, match="9:8: sql: this declaration stands in no file"):
        parse_declarations(document(sql="orders.sql"), path=Path("attributes"), env={})
