"""The component in somebody else's Dagster project."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException

from lakehouse.components import IcebergTable
from lakehouse.errors import DeclarationError, LakehouseError, NotAvailable
from tests.declaration_text import document

Loads = Callable[[dict[str, str]], dg.Definitions]
PLAIN_ASSET = "import dagster as dg\n\n@dg.asset\ndef theirs() -> None: ...\n"


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loads:
    """Writes files below the `defs` folder of a project and loads it."""
    package = f"project_{uuid.uuid4().hex[:8]}"
    (tmp_path / "dg.toml").write_text(f'directory_type = "project"\n\n[project]\nroot_module = "{package}"\n')
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(files: dict[str, str]) -> dg.Definitions:
        for name, text in files.items():
            path = tmp_path / package / "defs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return dg.load_from_defs_folder(path_within_project=tmp_path)

    return load


def keys(definitions: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in definitions.resolve_all_asset_keys()}


def test_a_foreign_project_loads_tables_beside_its_own_assets(loads: Loads) -> None:
    definitions = loads({"orders/defs.yaml": document(), "their_asset.py": PLAIN_ASSET})

    assert keys(definitions) == {"analytics/orders", "theirs"}
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    assert len(graph.asset_check_keys) == 6


def test_sql_is_read_from_the_folder_of_the_component(loads: Loads) -> None:
    definitions = loads({"orders/defs.yaml": document(sql="orders.sql"), "orders/orders.sql": "select * from staged"})
    again = loads({"orders/orders.sql": "select * from staged where id > 1"})

    first, second = (d.resolve_assets_def(dg.AssetKey(["analytics", "orders"])) for d in (definitions, again))
    assert first.code_versions_by_key != second.code_versions_by_key


def test_several_tables_in_one_file_and_other_components_beside_them(loads: Loads) -> None:
    other = "type: dagster.DefsFolderComponent\n"
    text = "---\n".join(
        [document(), document(table="shop.items", start_date="2020-02-29"), document(table="shop.carts")]
    )
    definitions = loads({"tables/defs.yaml": text, "folder/defs.yaml": other})

    assert keys(definitions) == {"analytics/orders", "shop/items", "shop/carts"}
    partitions = definitions.resolve_asset_graph().get(dg.AssetKey(["shop", "items"])).partitions_def
    assert partitions is not None and partitions.get_first_partition_key() == "2020-02-29"


def test_environment_is_filled_in_by_our_parser_alone(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUCKET", "theirs")
    text = document(source="{uri: 's3://{{ env.BUCKET }}/orders', partition: input_date=%Y-%m-%d, format: {type: csv}}")
    definitions = loads({"orders/defs.yaml": text})
    metadata = definitions.resolve_asset_graph().get(dg.AssetKey(["analytics", "orders"])).metadata
    assert metadata["source"].value == "s3://theirs/orders/input_date=%Y-%m-%d"


def mistake(loads: Loads, text: str) -> LakehouseError:
    """What Dagster names as the cause of a code location that does not load."""
    with pytest.raises(ComponentTreeException) as raised:
        loads({"orders/defs.yaml": text})
    assert isinstance(raised.value.__cause__, LakehouseError)
    return raised.value.__cause__


def test_a_mistake_is_told_as_validate_tells_it(loads: Loads) -> None:
    error = mistake(loads, document(key="[order]"))
    assert isinstance(error, DeclarationError)
    assert str(error).endswith("defs.yaml:6:9: key[0]: no column 'order'; known are id, n, t, day")


def test_mistakes_of_every_document_of_a_file_are_told(loads: Loads) -> None:
    text = "---\n".join([document(key="[order]"), document(table="shop.items", colour="red")])
    first, second = str(mistake(loads, text)).splitlines()
    assert "key[0]" in first and "colour: unknown field" in second


def test_a_later_feature_is_refused(loads: Loads) -> None:
    error = mistake(loads, document(engine="spark"))
    assert isinstance(error, NotAvailable) and "not available yet" in str(error)


def test_attributes_can_be_given_in_code() -> None:
    component = IcebergTable.from_attributes_dict(
        attributes={
            "table": "analytics.orders",
            "source": {"uri": "s3://landing/orders", "format": {"type": "csv"}},
            "columns": {"id": "bigint", "t": "timestamptz"},
            "key": ["id"],
            "order_by": ["t"],
            "start_date": "2026-08-30",
        }
    )
    assert keys(dg.build_defs_for_component(component)) == {"analytics/orders"}


def test_loading_declarations_imports_no_engine(loads: Loads) -> None:
    """A code location is loaded by every process that Dagster starts."""
    program = (
        "import sys, lakehouse.components\n"
        "print([m for m in ('duckdb', 'pyiceberg', 'pyarrow', 'boto3', 'obstore') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
