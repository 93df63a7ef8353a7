"""What several writers of each format write is read back value by value; damaged, it is rows and rejects or refused."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import orc

from lakehouse.errors import UnreadableObject
from tests import corpus_values as corpus
from tests import spark_corpus
from tests.corpus_values import ATOMS, DECLARED, Writer
from tests.readers.canonical import canonical
from tests.readers.environment import Missing
from tests.readers.reader import SparkReader
from tests.spark_corpus import SparkWriter
from tests.staging_values import Result, Staging, declared

CSV: dict[str, Any] = {"type": "csv"}
XML: dict[str, Any] = {"type": "xml", "row_element": "r"}
NO_RETURN = (*ATOMS, "\n")
"""XML makes every CR a line feed."""
NANOSECONDS = (1700, 2200)


def by_duckdb(options: str, *, texts: bool) -> Any:
    def write(given: Any) -> bytes:
        path = Path(os.environ["CORPUS_FOLDER"]) / "copied"
        return corpus.copied_by_duckdb(corpus.hexed(given) if texts else given, options, path)

    return write


WRITERS = {
    "csv python": Writer(CSV, corpus.csv_of_python),
    "csv duckdb": Writer(CSV, by_duckdb("format csv, header", texts=True)),
    "csv arrow": Writer(CSV, corpus.csv_of_arrow),
    "csv polars": Writer(CSV, corpus.csv_of_polars),
    "jsonl python": Writer({"type": "jsonl"}, corpus.jsonl_of_python),
    "jsonl duckdb": Writer({"type": "jsonl"}, by_duckdb("format json", texts=True)),
    "jsonl polars": Writer({"type": "jsonl"}, corpus.jsonl_of_polars),
    "json python": Writer({"type": "json", "records_path": "data"}, corpus.json_of_python),
    "json duckdb": Writer({"type": "json"}, by_duckdb("format json, array true", texts=True)),
    "json polars": Writer({"type": "json"}, corpus.json_of_polars),
    "parquet arrow": Writer({"type": "parquet"}, corpus.parquet_of_arrow),
    "parquet duckdb": Writer({"type": "parquet"}, by_duckdb("format parquet, row_group_size 2048", texts=False)),
    "parquet polars": Writer({"type": "parquet"}, corpus.parquet_of_polars),
    "orc arrow": Writer({"type": "orc"}, corpus.orc_of_arrow, years=NANOSECONDS),
    "avro fastavro": Writer({"type": "avro"}, corpus.avro_of_fastavro("deflate")),
    "avro fastavro snappy": Writer({"type": "avro"}, corpus.avro_of_fastavro("snappy")),
    "avro polars": Writer({"type": "avro"}, corpus.avro_of_polars, without=("m", "w", "z")),
    "xml elementtree": Writer(XML, corpus.xml_of_elementtree, atoms=NO_RETURN),
    "xml minidom": Writer(XML, corpus.xml_of_minidom, atoms=NO_RETURN),
    "xml sax": Writer(XML, corpus.xml_of_sax, atoms=NO_RETURN),
}


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    monkeypatch.setenv("CORPUS_FOLDER", str(tmp_path))
    return WRITERS[request.param]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


def staging(con: duckdb.DuckDBPyConnection, folder: Path, writer: Writer) -> Staging:
    columns = {name: kind for name, kind in DECLARED.items() if name not in writer.without}
    return Staging(con, folder, declared(columns, format=writer.format))


def check(con: duckdb.DuckDBPyConnection, folder: Path, writer: Writer, seed: int, count: int) -> int:
    """Write random rows and read them; returns how many values were compared."""
    made = corpus.rows(random.Random(seed), count, atoms=writer.atoms, years=writer.years)
    given = corpus.table(made).drop_columns(list(writer.without))
    result = staging(con, folder, writer).stage(writer.write(given))
    kept = [i for i, name in enumerate(DECLARED) if name not in writer.without]
    meant = [tuple(row[i] for i in kept) for row in made]
    assert result.rejects == []
    for row, wanted in zip(result.rows, meant, strict=True):
        assert row == wanted
    return len(kept) * count


def damaged(data: bytes, random_: random.Random) -> bytes:
    """Some bytes changed, dropped or doubled."""
    broken = bytearray(data)
    for _ in range(random_.choice([1, 1, 1, 3, 10])):
        at = random_.randrange(len(broken))
        match random_.randrange(4):
            case 0:
                broken[at] = random_.randrange(256)
            case 1:
                del broken[at : at + random_.choice([1, 2, 50])]
            case 2:
                broken[at:at] = broken[at : at + random_.choice([1, 2, 50])]
            case _:
                del broken[at:]
        if not broken:
            break
    return bytes(broken)


def check_damaged(con: duckdb.DuckDBPyConnection, folder: Path, writer: Writer, seed: int) -> Result | None:
    """A damaged file is rows and rejects, which `stage` counts, or it is refused and leaves nothing."""
    random_ = random.Random(seed)
    made = corpus.rows(random_, 20, atoms=writer.atoms, years=writer.years)
    data = damaged(writer.write(corpus.table(made).drop_columns(list(writer.without))), random_)
    place = staging(con, folder, writer)
    try:
        return place.stage(data)
    except UnreadableObject:
        assert place.empty
        return None


@pytest.mark.parametrize("seed", [1])
def test_every_writer_is_read_value_by_value(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, writer: Writer, seed: int
) -> None:
    assert check(con, tmp_path, writer, seed, 2000) >= 18_000


def test_damaged_files_are_rows_and_rejects_or_refused(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, writer: Writer
) -> None:
    for seed in range(20):
        check_damaged(con, tmp_path, writer, seed)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_a_million_values_of_every_writer(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    writer: Writer,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = seed = int(os.environ.get("LAKEHOUSE_CHAOS_SEED") or time.time_ns() % 10**9)
    name = request.node.callspec.params["writer"]
    with capsys.disabled():
        print(f"\n{name}: seed {first}")
    compared = refused = rejects = 0
    while compared < 1_000_000:
        compared += check(con, tmp_path, writer, seed, 20_000)
        seed += 1
    for _ in range(1000):
        result = check_damaged(con, tmp_path, writer, seed)
        refused += result is None
        rejects += len(result.rejects) if result else 0
        seed += 1
    with capsys.disabled():
        print(f"{name}: {compared:,} values read back; of 1,000 damaged files {refused} refused, {rejects:,} rejects")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkReader]:
    try:
        spark = SparkReader(tmp_path_factory.mktemp("spark"))
    except Missing as missing:
        pytest.skip(f"Spark writes nothing: {missing}")
    yield spark
    spark.close()


def check_spark(
    con: duckdb.DuckDBPyConnection, folder: Path, writer: SparkWriter, spark: SparkReader, seed: int
) -> int:
    """Let Spark write random rows and read them; returns how many values were compared."""
    made = spark_corpus.made(random.Random(seed), 6000, writer)
    place = Staging(con, folder, declared(made.declared, format=writer.format))
    result = place.stage(writer.write(spark, made.table, folder))
    assert result.rejects == []
    for row, wanted in zip(result.rows, made.meant(writer), strict=True):
        assert [canonical(value) for value in row] == wanted
    return len(made.columns) * len(made.values)


def ends_the_process(data: bytes, path: Path) -> bool:
    """Whether pyarrow's ORC reader ends a process over a damaged file, which nothing in it can prevent."""
    path.write_bytes(data)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            file = orc.ORCFile(path)
            for number in range(file.nstripes):
                file.read_stripe(number)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def check_damaged_of_spark(
    con: duckdb.DuckDBPyConnection, folder: Path, writer: SparkWriter, spark: SparkReader, seed: int
) -> list[Result | str | None]:
    """One file of Spark's, damaged fifty times; those that would end this process are told as "ends"."""
    made = spark_corpus.made(random.Random(seed), 20, writer)
    data = writer.write(spark, made.table, folder)
    found: list[Result | str | None] = []
    for number in range(50):
        broken = damaged(data, random.Random(seed * 50 + number))
        if writer.format["type"] == "orc" and ends_the_process(broken, folder / "probe"):
            found.append("ends")
            continue
        place = Staging(con, folder, declared(made.declared, format=writer.format))
        try:
            found.append(place.stage(broken))
        except UnreadableObject:
            assert place.empty
            found.append(None)
    return found


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", spark_corpus.WRITERS)
def test_a_million_values_of_every_way_in_which_spark_writes(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, spark: SparkReader, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    first = seed = int(os.environ.get("LAKEHOUSE_CHAOS_SEED") or time.time_ns() % 10**9)
    with capsys.disabled():
        print(f"\n{name}: seed {first}")
    writer = spark_corpus.WRITERS[name]
    compared = 0
    while compared < 1_000_000:
        compared += check_spark(con, tmp_path, writer, spark, seed)
        seed += 1
    results: list[Result | str | None] = []
    while len(results) < 1000:
        results += check_damaged_of_spark(con, tmp_path, writer, spark, seed)
        seed += 1
    refused = sum(result is None for result in results)
    rejects = sum(len(result.rejects) for result in results if isinstance(result, Result))
    ends = results.count("ends")
    # ORC has no checksums, and its reader trusts what it unpacks
    assert ends <= 5
    with capsys.disabled():
        print(
            f"{name}: {compared:,} values read back; of 1,000 damaged files {refused} refused, {rejects:,} rejects, "
            f"{ends} that end the process"
        )
