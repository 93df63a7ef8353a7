"""DuckDB with its iceberg extension, run in an environment of its own (`tests.readers.environment`)."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from tests.readers.canonical import canonical
from tests.readers.serve import serve


def start() -> Callable[[dict[str, Any]], Any]:
    con = duckdb.connect()
    site = Path(sysconfig.get_paths()["purelib"])
    for name in ("httpfs", "avro", "iceberg"):
        (path,) = site.glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension")
        con.execute(f"load '{path}'")
    con.execute("set TimeZone = 'UTC'")
    return lambda request: _answer(con, request)


def _answer(con: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> Any:
    match request["do"]:
        case "attach":
            return _attach(con, **request["catalog"])
        case "query":
            found = con.execute(request["sql"]).fetchall()
            return [[canonical(value) for value in row] for row in found]
    raise ValueError(f"unknown request: do={request['do']}")


def _attach(
    con: duckdb.DuckDBPyConnection, *, name: str, uri: str, warehouse: str, key: str, secret: str, s3: str
) -> None:
    scheme, _, host = s3.partition("://")
    con.execute(
        f"create or replace secret {name}_s3 (type s3, key_id '{key}', secret '{secret}', endpoint '{host}', "
        f"use_ssl {str(scheme == 'https').lower()}, url_style 'path', region 'us-east-1')"
    )
    con.execute(
        f"create or replace secret {name}_catalog (type iceberg, client_id '{key}', client_secret '{secret}', "
        f"oauth2_server_uri '{uri}/v1/oauth/tokens', oauth2_scope 'PRINCIPAL_ROLE:ALL')"
    )
    con.execute(f"attach '{warehouse}' as {name} (type iceberg, endpoint '{uri}', secret {name}_catalog)")


if __name__ == "__main__":
    serve(start)
