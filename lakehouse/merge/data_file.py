"""Describes one written Parquet file as an Iceberg DataFile: counts, sizes, bounds. Reads its footer alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros


def describe(table: Table, path: Path, *, uri: str, partition: Sequence[Any]) -> DataFile:
    """A DataFile of the table's default spec for the local file `path` that was uploaded to `uri`.

    `partition` holds the partition values in spec order, as `stored_values` gives them.
    """
    metadata = pq.read_metadata(path)
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=metadata,
        stats_columns=compute_statistics_plan(table.schema(), table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(table.schema()),
    )
    for field_id, bounds in list(statistics.column_aggregates.items()):
        if any(isinstance(v, float) and math.isnan(v) for v in (bounds.current_min, bounds.current_max)):
            del statistics.column_aggregates[field_id]  # NaN is no bound (Iceberg spec, Appendix D)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        file_size_in_bytes=path.stat().st_size,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
    file.spec_id = table.metadata.default_spec_id
    return file


def stored_values(values: Sequence[Any]) -> tuple[Any, ...]:
    """Partition values as manifests hold them, from what DuckDB or PyIceberg returned."""
    return tuple(_stored(value) for value in values)


def _stored(value: Any) -> Any:
    """Dates and timestamps are integers in a manifest."""
    if isinstance(value, datetime):
        return datetime_to_micros(value)
    if isinstance(value, date):
        return date_to_days(value)
    return value
