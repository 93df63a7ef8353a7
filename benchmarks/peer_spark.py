"""Runs one `MERGE INTO` of Spark with Iceberg's runtime in a process of its own, in an environment of its own.

    python -m benchmarks.peer_spark warm
    python -m benchmarks.peer_spark run TABLE SHAPE KEY --mode merge-on-read|copy-on-write

Through the same REST catalog and S3, from the peers' file, on two local cores. The session starts, and reads the table
once, before the clock does; fetching the file counts. `warm` starts a session alone, which fetches the jars.
Imports pyspark 3.5, boto3 and the standard library; see `peers`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import boto3
from pyspark.sql import SparkSession  # type: ignore[import-not-found]  # in an environment of its own

from benchmarks.machine import peak_rss_bytes
from benchmarks.workload import BUCKET, Target

JARS = "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0,org.apache.iceberg:iceberg-aws-bundle:1.10.0"
_CATALOG = "PYICEBERG_CATALOG__DEFAULT__"
_TYPES = {"VARCHAR": "string", "TIMESTAMP WITH TIME ZONE": "timestamp"}


def session(env: Mapping[str, str]) -> SparkSession:
    """A local session; `SPARK_IVY` is where jars are kept. The catalog of the environment, if any, is `lake`."""
    settings = {
        "spark.jars.ivy": env["SPARK_IVY"],
        "spark.jars.packages": JARS,
        "spark.driver.memory": "10g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
    }
    if _CATALOG + "URI" in env:
        settings |= _catalog(env)
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _catalog(env: Mapping[str, str]) -> dict[str, str]:
    key, secret = env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"]
    properties = {
        "type": "rest",
        "uri": env[_CATALOG + "URI"],
        "oauth2-server-uri": env[_CATALOG + "OAUTH2_SERVER_URI"],
        "credential": f"{key}:{secret}",
        "scope": "PRINCIPAL_ROLE:ALL",
        "warehouse": env[_CATALOG + "WAREHOUSE"],
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": env["AWS_ENDPOINT_URL_S3"],
        "s3.path-style-access": "true",
        "s3.access-key-id": key,
        "s3.secret-access-key": secret,
        "client.region": env["AWS_REGION"],
    }
    prefixed = {f"spark.sql.catalog.lake.{name}": value for name, value in properties.items()}
    return {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", **prefixed}


def merge(spark: SparkSession, table: str, target: Target, key: str) -> None:
    """Fetch the file and merge it by key."""
    schema = ", ".join(f"{name} {_TYPES.get(text, text)}" for name, text in target.columns.items())
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "clean.csv"
        boto3.client("s3").download_file(BUCKET, key, str(local))
        spark.read.csv(str(local), header=True, schema=schema).createOrReplaceTempView("source")
        spark.sql(
            f"""merge into lake.{table} t using source s on t.order_id = s.order_id
                when matched then update set * when not matched then insert *"""
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_spark", description=__doc__)
    parser.add_argument("what", choices=("warm", "run"))
    parser.add_argument("table", nargs="?")
    parser.add_argument("shape", nargs="?")
    parser.add_argument("key", nargs="?", help="the peers' file in the landing bucket")
    parser.add_argument("--mode", choices=("merge-on-read", "copy-on-write"), default="merge-on-read")
    options = parser.parse_args()
    spark = session(os.environ)
    if options.what == "warm":
        print(json.dumps({"rows": spark.range(1).count()}))
        return
    spark.sql(
        f"""alter table lake.{options.table} set tblproperties (
            'write.merge.mode' = '{options.mode}', 'write.distribution-mode' = 'none')"""
    )
    spark.sql(f"select count(*), sum(amount) from lake.{options.table}").collect()
    driver = spark.sparkContext._gateway.proc.pid  # the work and its memory are in the Java process
    started, cpu = time.perf_counter(), _cpu_seconds(driver)
    merge(spark, options.table, Target(options.shape, 0), options.key)
    seconds = time.perf_counter() - started
    measured = {"cpu_seconds": _cpu_seconds(driver) - cpu, "rss_bytes": peak_rss_bytes(driver)}
    print(json.dumps({"seconds": seconds, **measured}))
    spark.stop()


def _cpu_seconds(process: int) -> float:
    """CPU seconds that a process has used."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.is_file():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
