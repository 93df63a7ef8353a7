"""How catalogs are opened, with an end to every wait, and what their errors become."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
import requests
import sqlalchemy.exc
from botocore.exceptions import ClientError, EndpointConnectionError
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchIcebergTableError,
)

from lakehouse.catalog import load_table, open_catalog, translate, was_refused
from lakehouse.errors import ConfigurationError, Conflict, LakehouseError, Unavailable


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Any:
    def configure(**properties: str) -> str:
        for name, value in properties.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__MINE__{name.upper()}", value)
        return "mine"

    return configure


def test_glue_answers_in_bounded_time(configured: Any) -> None:
    catalog = open_catalog(configured(type="glue", glue__region="us-east-1"))
    assert isinstance(catalog, GlueCatalog)
    config = catalog.glue.meta.config
    assert (config.connect_timeout, config.read_timeout) == (5.0, 60.0)
    assert config.retries["total_max_attempts"] == 5


def test_the_users_number_of_retries_stands_though_it_is_a_text(configured: Any) -> None:
    catalog = open_catalog(configured(type="glue", glue__region="us-east-1", glue__max_retries="2"))
    assert isinstance(catalog, GlueCatalog)
    assert catalog.glue.meta.config.retries["total_max_attempts"] == 3


def opened_uri(name: str) -> tuple[str, dict[str, Any]]:
    """The URI and properties that PyIceberg's SQL catalog is given."""
    with patch.object(SqlCatalog, "__init__", return_value=None) as init:
        SqlCatalog.engine = sqlalchemy.create_engine("sqlite://")  # type: ignore[attr-defined]
        try:
            open_catalog(name)
        finally:
            del SqlCatalog.engine  # type: ignore[attr-defined]
    given = dict(init.call_args.kwargs)
    return given["uri"], given


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg2"])
def test_postgresql_answers_in_bounded_time(configured: Any, driver: str) -> None:
    uri, given = opened_uri(configured(type="sql", uri=f"{driver}://me:p%40s@db:5432/lake?connect_timeout=30"))
    url = sqlalchemy.make_url(uri)
    assert (url.drivername, url.password, url.database) == (driver, "p@s", "lake")
    assert url.query["connect_timeout"] == "30"
    assert {"tcp_user_timeout", "keepalives_idle", "keepalives_count"} <= set(url.query)
    assert given["pool_pre_ping"] == "true"


def test_other_drivers_get_no_settings_that_they_do_not_know(configured: Any) -> None:
    uri = "postgresql+pg8000://me@db/lake"
    assert opened_uri(configured(type="sql", uri=uri))[0] == uri


def test_a_storage_that_pauses_is_waited_for_as_long_as_the_user_says(configured: Any, tmp_path: Path) -> None:
    name = configured(type="sql", uri="sqlite://", warehouse=f"file://{tmp_path}")

    def quiet_seconds() -> str:
        catalog = open_catalog(name)
        catalog.create_namespace("lake")
        return str(catalog.create_table("lake.t", pa.schema([("id", pa.int64())])).io.properties["s3.request-timeout"])

    assert quiet_seconds() == "20"
    configured(s3__request_timeout="90")
    assert quiet_seconds() == "90"


def test_processes_may_open_an_empty_catalog_at_the_same_moment(configured: Any, tmp_path: Path) -> None:
    name = configured(type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    all_saw_it_empty = Barrier(4)
    make = SqlCatalog.create_tables

    def make_together(catalog: SqlCatalog) -> None:
        with suppress(BrokenBarrierError):  # the second try of each does not wait
            all_saw_it_empty.wait(10)
        all_saw_it_empty.abort()
        make(catalog)

    with patch.object(SqlCatalog, "create_tables", make_together), ThreadPoolExecutor(4) as pool:
        for catalog in pool.map(lambda _: open_catalog(name), range(4)):
            assert catalog.list_namespaces() == []
            catalog.engine.dispose()  # type: ignore[attr-defined]


def sql_error(kind: type[sqlalchemy.exc.DBAPIError], text: str) -> sqlalchemy.exc.DBAPIError:
    return kind("statement", {}, Exception(text))


def storage_error(answer: str, key: str = "data/00000.parquet") -> OSError:
    """As PyArrow words it."""
    return OSError(f"When initiating multiple part upload for key '{key}' in bucket 'lake': AWS Error {answer}")


def aws_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "UpdateTable")


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (sql_error(sqlalchemy.exc.OperationalError, "server closed the connection"), Unavailable),
        (sql_error(sqlalchemy.exc.OperationalError, 'password authentication failed for user "x"'), ConfigurationError),
        (sql_error(sqlalchemy.exc.OperationalError, 'database "lake" does not exist'), ConfigurationError),
        (sql_error(sqlalchemy.exc.IntegrityError, "(UniqueViolation) duplicate key value"), Unavailable),
        (sql_error(sqlalchemy.exc.ProgrammingError, 'relation "iceberg_tables" already exists'), Unavailable),
        (sql_error(sqlalchemy.exc.ProgrammingError, "permission denied for table"), ConfigurationError),
        (aws_error("AccessDeniedException"), ConfigurationError),
        (aws_error("ExpiredTokenException"), ConfigurationError),
        (aws_error("ThrottlingException"), Unavailable),
        (aws_error("ConcurrentModificationException"), Unavailable),
        (EndpointConnectionError(endpoint_url="http://glue"), Unavailable),
        (storage_error("SLOW_DOWN during CreateMultipartUpload operation: slow"), Unavailable),
        (storage_error("UNKNOWN (HTTP status 503) during HeadObject operation: No response body."), Unavailable),
        (storage_error("ACCESS_DENIED during PutObject operation: no"), ConfigurationError),
        (storage_error("ACCESS_DENIED during PutObject operation: no", "a" * 900), ConfigurationError),
        (storage_error("SIGNATURE_DOES_NOT_MATCH during PutObject operation: no"), ConfigurationError),
        (storage_error("REQUEST_TIME_TOO_SKEWED during PutObject operation: no"), ConfigurationError),
        (storage_error("UNKNOWN (HTTP status 403) during PutObject operation: X"), ConfigurationError),
        (storage_error("UNKNOWN (HTTP status 400) during PutObject operation: ExpiredToken"), ConfigurationError),
        (storage_error("NO_SUCH_BUCKET during PutObject operation: no"), ConfigurationError),
        (storage_error("SLOW_DOWN during PutObject operation: slow", "metadata/snap-7140382-0.avro"), Unavailable),
        (storage_error("SLOW_DOWN during PutObject operation: slow", "EXPIRED/Forbidden/a.avro"), Unavailable),
        (OSError("connection reset: s3://lake/403/snap-403-0.avro"), Unavailable),
        (PermissionError("Forbidden"), ConfigurationError),
        (CommitFailedException("others were faster"), Conflict),
        (BadRequestError("table location must be within bucket warehouse"), ConfigurationError),
        (NoSuchIcebergTableError("a Hive table"), ConfigurationError),
    ],
)
def test_errors_are_grouped_by_what_to_do_next(error: Exception, ours: type[LakehouseError]) -> None:
    found = translate(error, "table=a.b")
    assert type(found) is ours, found


@pytest.mark.parametrize("sent", [b'{"defaults": {', b""])
def test_an_answer_that_is_cut_off_is_the_catalogs(sent: bytes, configured: Any) -> None:
    class Cut(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "4000")
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Cut) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(Unavailable, match="the catalog's answer is cut off"):
                open_catalog(configured(type="rest", uri=f"http://127.0.0.1:{server.server_port}"))
        finally:
            server.shutdown()


def test_a_hive_table_of_the_same_name_is_not_taken_for_a_missing_one() -> None:
    class Hive:
        def load_table(self, name: str) -> None:
            raise NoSuchIcebergTableError(f"Property table_type is HIVE: {name}")

    with pytest.raises(ConfigurationError, match="HIVE"):
        load_table(Hive(), "a.b")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (CommitFailedException("requirement failed"), True),
        (CommitStateUnknownException("500"), False),
        (sql_error(sqlalchemy.exc.OperationalError, "database is locked"), True),
        (sql_error(sqlalchemy.exc.OperationalError, "canceling statement due to statement timeout"), True),
        (sql_error(sqlalchemy.exc.OperationalError, "server closed the connection unexpectedly"), False),
        (requests.ConnectTimeout(), True),
        (requests.ReadTimeout(), False),
        (requests.ConnectionError("('Connection aborted.', RemoteDisconnected())"), False),
        (EndpointConnectionError(endpoint_url="http://glue"), False),
    ],
)
def test_only_an_error_that_proves_it_counts_as_a_refusal(error: Exception, refused: bool) -> None:
    """botocore gave up after several requests, of which an earlier one may have been carried out."""
    assert was_refused(error) is refused
