"""The Dagster component that a `defs.yaml` names. Hands the file to our own parser and builds what it declares.

Dagster's own reading of `attributes` is bypassed on purpose: one parser serves it and the command line, with the same
values and the same messages. It works in any Dagster project that has lakehouse installed.

No `from __future__ import annotations` here: Dagster reads the annotations of components.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import BaseModel, ConfigDict

from lakehouse.declaration import Declaration, parse_declaration_file, parse_declarations
from lakehouse.orchestration.table import build_table_definitions

_FILE_NAMES = ("defs.yaml", "component.yaml")


class Attributes(BaseModel):
    """Whatever stands under `attributes`: the parser of declarations reads it, from the file."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True)
class IcebergTable(dg.Component):
    """One Iceberg table, loaded from files on S3 by upsert, with checks, a sensor and a schedule."""

    declaration: Declaration

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        return Attributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "IcebergTable":
        """Read the document that the context points at, or, without a file, the attributes themselves.

        Raises DeclarationError or NotAvailable with every mistake of the file, as `lakehouse validate` shows them.
        """
        document, path = _document(context)
        if path is None:
            given = attributes.model_dump() if attributes else {}
            return cls(_parse_attributes(given))
        declared = {d.document: d for d in parse_declaration_file(path, os.environ)}
        return cls(declared[document])

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster's signature
        return build_table_definitions(self.declaration)


def _document(context: dg.ComponentLoadContext) -> tuple[int, Path | None]:
    """Which YAML document of which file is being loaded; no file for a component that is made in code."""
    location = context.component_path
    folder = location.file_path
    candidates = [folder] if folder.is_file() else [folder / name for name in _FILE_NAMES]
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    return (location.instance_key if isinstance(location.instance_key, int) else 0), path


def _parse_attributes(attributes: dict[str, Any]) -> Declaration:
    # JSON is YAML, and dates are text there
    text = json.dumps({"type": "lakehouse.components.IcebergTable", "attributes": attributes}, default=str)
    (declaration,) = parse_declarations(text, path=Path("attributes"), env=os.environ)
    return declaration
