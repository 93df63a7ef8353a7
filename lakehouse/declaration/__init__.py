"""Declarations: the YAML that declares one table, read and checked without Dagster and without touching any service.

One parser serves the command line and the Dagster component. It never reads data, buckets or catalogs.
"""

from __future__ import annotations

from lakehouse.declaration.checks import CheckPolicy, ExpectedObjects, Gates
from lakehouse.declaration.column import Column
from lakehouse.declaration.file_glob import match_glob
from lakehouse.declaration.formats import (
    AvroFormat,
    CsvFormat,
    Format,
    JsonFormat,
    JsonlFormat,
    OrcFormat,
    ParquetFormat,
    Trailer,
    XmlFormat,
)
from lakehouse.declaration.landing_pattern import LandingPattern
from lakehouse.declaration.load import (
    declarations_reading,
    find_declaration,
    load_declarations,
    parse_declaration_file,
    parse_declarations,
    validate_all,
)
from lakehouse.declaration.model import Declaration
from lakehouse.declaration.partition_field import PartitionField
from lakehouse.declaration.source import Ready, Source

__all__ = [
    "AvroFormat",
    "CheckPolicy",
    "Column",
    "CsvFormat",
    "Declaration",
    "ExpectedObjects",
    "Format",
    "Gates",
    "JsonFormat",
    "JsonlFormat",
    "LandingPattern",
    "OrcFormat",
    "ParquetFormat",
    "PartitionField",
    "Ready",
    "Source",
    "Trailer",
    "XmlFormat",
    "declarations_reading",
    "find_declaration",
    "load_declarations",
    "match_glob",
    "parse_declaration_file",
    "parse_declarations",
    "validate_all",
]
