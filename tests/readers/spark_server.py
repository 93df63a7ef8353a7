"""Spark with Iceberg's runtime, run in an environment of its own (`tests.readers.environment`).

usage: python -m tests.readers.spark_server JAR:JAR
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from tests.readers.canonical import canonical
from tests.readers.serve import serve

SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}

READ_AS_IT_IS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}


def start() -> Callable[[dict[str, Any]], Any]:
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", sys.argv[1])
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return lambda request: _answer(spark, request)


def _answer(spark: SparkSession, request: dict[str, Any]) -> Any:
    match request["do"]:
        case "attach":
            return _attach(spark, **request["catalog"])
        case "query":
            return _rows(spark, request["sql"])
        case "execute":
            spark.sql(request["sql"])
            return None
        case "view":
            spark.read.format("iceberg").load(request["path"]).createOrReplaceTempView(request["name"])
            return None
        case "write":
            return _write(spark, **request["write"])
        case "equality_delete":
            return _equality_delete(spark, **request["delete"])
    raise ValueError(f"unknown request: do={request['do']}")


def _attach(spark: SparkSession, *, name: str, uri: str, warehouse: str, key: str, secret: str, s3: str) -> None:
    properties = {
        "type": "rest",
        "uri": uri,
        "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
        "credential": f"{key}:{secret}",
        "warehouse": warehouse,
        "cache-enabled": "false",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": "us-east-1",
        "s3.endpoint": s3,
        "s3.path-style-access": "true",
        "s3.access-key-id": key,
        "s3.secret-access-key": secret,
    }
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for property, value in properties.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{property}", value)


def _rows(spark: SparkSession, sql: str) -> list[list[Any]]:
    frame = spark.sql(sql)
    types = [field.dataType for field in frame.schema.fields]
    return [[canonical(_plain(value, kind)) for value, kind in zip(row, types, strict=True)] for row in frame.collect()]


def _plain(value: Any, kind: DataType) -> Any:
    """Rows as mappings, and instants with their zone, which PySpark drops: this process runs in UTC."""
    if value is None:
        return None
    match kind:
        case TimestampType():
            return value.replace(tzinfo=UTC)
        case StructType():
            return {f.name: _plain(value[f.name], f.dataType) for f in kind.fields}
        case ArrayType():
            return [_plain(v, kind.elementType) for v in value]
        case MapType():
            return {_plain(k, kind.keyType): _plain(v, kind.valueType) for k, v in value.items()}
    return value


def _write(
    spark: SparkSession,
    *,
    source: str,
    target: str,
    format: str,
    options: dict[str, str],
    settings: dict[str, str],
    zone: str,
    columns: list[str],
) -> str:
    """Write a Parquet file's columns, which are SQL, again as one file below the folder `target`; returns its path.

    `zone` is the JVM's and the session's.
    """
    jvm: Any = spark._jvm
    jvm.java.util.TimeZone.setDefault(jvm.java.util.TimeZone.getTimeZone(zone))
    for name, value in {"spark.sql.session.timeZone": zone, **READ_AS_IT_IS, **settings}.items():
        spark.conf.set(name, value)
    frame = spark.read.parquet(source).selectExpr(*columns).coalesce(1)
    frame.write.format(format).options(**options).mode("overwrite").save(target)
    (path,) = Path(target).glob("part-*")
    return str(path)


def _equality_delete(spark: SparkSession, *, table: str, column: str, value: str) -> None:
    """Commit an equality delete on a text column of an unpartitioned table, as Flink does and Spark never."""
    jvm: Any = spark._jvm  # PySpark's only way to Iceberg's Java API
    iceberg = jvm.org.apache.iceberg
    loaded = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    columns = jvm.java.util.ArrayList()
    columns.add(column)
    deleted = loaded.schema().select(columns)
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = loaded.schema().findField(column).fieldId()
    factory = iceberg.data.GenericAppenderFactory(loaded.schema(), loaded.spec(), ids, deleted, None)
    output = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(
        loaded.io().newOutputFile(f"{loaded.location()}/data/equality-{uuid.uuid4().hex}.parquet")
    )
    writer = factory.newEqDeleteWriter(output, iceberg.FileFormat.PARQUET, None)
    record = iceberg.data.GenericRecord.create(deleted)
    record.setField(column, value)
    writer.write(record)
    writer.close()
    loaded.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


if __name__ == "__main__":
    serve(start)
