"""Who reads beside whom, and how much, by workload. Does no work."""

from __future__ import annotations

from benchmarks.reading.files import Files
from benchmarks.workload import FULL_ROWS

LOCAL, LANDED = "staged, local file", "staged, file on S3"
TEXTS, TYPES, SNIFFED = "DuckDB COPY, texts", "DuckDB COPY, declared types", "DuckDB COPY, sniffed types"
BOTO3, OBSTORE = "boto3 and csv", "obstore, bytes alone"
PEERS = {TEXTS: "copy-texts", TYPES: "copy-types", SNIFFED: "copy-sniffed", BOTO3: "boto3", OBSTORE: "obstore"}
"""What `peers` calls them."""


def files_of(workload: str, rows: int) -> Files:
    """The files of a workload of READING; `rows` is the size of the usual target."""
    match workload:
        case "read-csv":
            return Files(1, rows // 10)
        case "small-files":
            return Files(max(2, rows // 1000), 100)
        case _:
            return Files(1, rows * 5)


def memory_of(rows: int) -> str:
    """LAKEHOUSE_MEMORY of `big-csv`."""
    return "2GiB" if rows >= FULL_ROWS else "512MiB"
