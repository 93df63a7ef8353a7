"""Runs one bare `MERGE INTO` of DuckDB's iceberg extension in a process of its own, in an environment of its own.

    python -m benchmarks.peer_duckdb run TABLE SHAPE KEY

Through the same REST catalog and S3, from the peers' file in the landing bucket. Loading the extensions and attaching
the catalog are not timed. MERGE refuses or doubles on duplicate source keys, so the file holds each key once.
Imports DuckDB 1.5 and the standard library; see `peers`.
"""

from __future__ import annotations

import argparse
import json
import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import duckdb

from benchmarks.machine import Meter
from benchmarks.workload import BUCKET, Target

_CATALOG = "PYICEBERG_CATALOG__DEFAULT__"


def connect(env: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
    """A session with the catalog of the environment attached as `lake`; downloads nothing."""
    con = duckdb.connect()
    site = Path(sysconfig.get_paths()["purelib"])
    for name in ("httpfs", "avro", "iceberg"):
        (file,) = (site / f"duckdb_extension_{name}").glob(f"extensions/*/{name}.duckdb_extension")
        con.execute(f"load '{file}'")
    key, secret = env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"]
    endpoint = env["AWS_ENDPOINT_URL_S3"].removeprefix("http://")
    con.execute(
        f"""create secret s3 (type s3, key_id '{key}', secret '{secret}', endpoint '{endpoint}', use_ssl false,
            url_style 'path', region '{env["AWS_REGION"]}')"""
    )
    con.execute(
        f"""create secret rest (type iceberg, client_id '{key}', client_secret '{secret}',
            oauth2_server_uri '{env[_CATALOG + "OAUTH2_SERVER_URI"]}', oauth2_scope 'PRINCIPAL_ROLE:ALL')"""
    )
    endpoint = env[_CATALOG + "URI"]
    con.execute(f"attach '{env[_CATALOG + 'WAREHOUSE']}' as lake (type iceberg, endpoint '{endpoint}', secret rest)")
    con.execute("set TimeZone = 'UTC'")
    return con


def merge(con: duckdb.DuckDBPyConnection, table: str, target: Target, key: str) -> None:
    """One statement: read the file, merge by key."""
    source = f"""read_csv('s3://{BUCKET}/{key}', header = true, auto_detect = false, hive_partitioning = false,
        columns = {target.columns})"""
    con.execute(
        f"""merge into lake.{table} t using (from {source}) s on t.order_id = s.order_id
            when matched then update when not matched then insert"""
    ).fetchall()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_duckdb", description=__doc__)
    parser.add_argument("what", choices=("run",))
    parser.add_argument("table")
    parser.add_argument("shape")
    parser.add_argument("key", help="the peers' file in the landing bucket")
    options = parser.parse_args()
    con = connect(os.environ)
    meter = Meter()
    merge(con, options.table, Target(options.shape, 0), options.key)
    print(json.dumps(meter.read()))


if __name__ == "__main__":
    main()
