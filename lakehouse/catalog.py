"""Opens the Iceberg catalog, sets an end to every wait for it, and translates its errors, once, into ours.

Never writes a table.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import requests
from botocore.config import Config as ClientConfig
from botocore.exceptions import ClientError
from botocore.session import Session as ClientSession
from pyiceberg.catalog import BOTOCORE_SESSION, Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.io import S3_REQUEST_TIMEOUT
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from lakehouse.errors import ConfigurationError, Conflict, LakehouseError, Unavailable
from lakehouse.iceberg import CONNECT_SECONDS, READ_SECONDS, TimedRestCatalog, is_supported
from lakehouse.redaction import redacted, remember, secrets_in
from lakehouse.secrets import fetch_secret, secret_named
from lakehouse.table_files import write_small_files_at_once

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

GLUE_RETRIES = 4
"""PyIceberg's own default of ten would wait ten minutes for a Glue that does not answer."""
QUIET_SECONDS = 20
"""How long a table's storage may send nothing in the middle of a file; Arrow's own three seconds are short."""
_LIBPQ = ("postgresql", "postgresql+psycopg2", "postgresql+psycopg")
_LIBPQ_TIMEOUTS = {
    "connect_timeout": f"{CONNECT_SECONDS:.0f}",
    "tcp_user_timeout": f"{READ_SECONDS * 1000:.0f}",
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "4",
}


def open_catalog(name: str) -> Catalog:
    """Open the catalog that PyIceberg's own configuration calls `name`.

    Raises ConfigurationError for a missing, wrong or unsupported configuration, Unavailable if it does not answer.
    """
    properties = Config().get_catalog_config(name)
    if not properties:
        raise ConfigurationError(
            f"catalog {name} is not configured: set PYICEBERG_CATALOG__{name.upper()}__URI and the like",
            next='lakehouse stack up && eval "$(lakehouse stack env)"   # for a local one',
        )
    texts = {S3_REQUEST_TIMEOUT: str(QUIET_SECONDS)} | {str(key): _text(value) for key, value in properties.items()}
    remember(secrets_in(texts))
    with translated(f"catalog={name}"):
        try:
            catalog = _open(name, texts)
        except (TypeError, ValueError, AttributeError, KeyError, ImportError, NotInstalledError) as error:
            # the properties of the environment and of ~/.pyiceberg.yaml together: PyIceberg does not say which is off
            raise ConfigurationError(
                f"catalog {name} cannot be opened: {type(error).__name__}: {_one_line(error)}: "
                f"properties={', '.join(sorted(texts))}"
            ) from error
    if not is_supported(catalog):
        raise ConfigurationError(f"catalog {name}: type {type(catalog).__name__} is not supported; REST, SQL or Glue")
    return catalog


def _text(value: object) -> str:
    """A property as it is written, or the secret that it names."""
    secret = secret_named(value)
    return str(value) if secret is None else fetch_secret(secret, os.environ)


def _open(name: str, texts: dict[str, str]) -> Catalog:
    """The catalog of its kind, its waits bounded where PyIceberg sets no bound and the configuration none."""
    kind, uri = texts.get("type"), texts.get("uri", "")
    if kind == "rest" or (kind is None and uri.startswith("http")):
        return TimedRestCatalog(name, **texts)
    if kind == "glue":
        return load_catalog(name, **{**texts, **_glue_bounds(texts)})
    if kind == "sql" or (kind is None and uri.startswith(("postgresql", "sqlite"))):
        return _open_sql(name, texts)
    return load_catalog(name, **texts)


def _glue_bounds(texts: Mapping[str, str]) -> dict[str, Any]:
    """A client session with timeouts, and the number of retries as botocore wants it: PyIceberg hands on a text."""
    session = ClientSession()
    session.set_default_client_config(ClientConfig(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS))
    return {BOTOCORE_SESSION: session, "glue.max-retries": int(texts.get("glue.max-retries", GLUE_RETRIES))}


def _open_sql(name: str, texts: dict[str, str]) -> Catalog:
    # Only a SQL catalog pays for these imports.
    from sqlalchemy import Connection, event, make_url

    url = make_url(texts.get("uri", ""))
    if url.drivername not in _LIBPQ:
        return _sql_catalog(name, texts)
    bounded = url.update_query_dict({k: v for k, v in _LIBPQ_TIMEOUTS.items() if k not in url.query})
    # A pooled connection may have been cut while a batch was merged: it is tried before it is used.
    properties = {"pool_pre_ping": "true", **texts, "uri": bounded.render_as_string(hide_password=False)}
    catalog = _sql_catalog(name, properties)

    def limit(connection: Connection) -> None:
        # Local to the transaction: behind a pooler the next user of the connection must not inherit it.
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {READ_SECONDS * 1000:.0f}")

    if "statement_timeout" not in str(url.query.get("options", "")):
        event.listen(catalog.engine, "begin", limit)
    return catalog


def _sql_catalog(name: str, properties: dict[str, str]) -> SqlCatalog:
    """PyIceberg makes the catalog's two tables where it sees none; another process may do so at the same moment."""
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import DBAPIError

    for _ in range(2):
        try:
            return SqlCatalog(name, **properties)
        except DBAPIError as error:
            if not (error.statement or "").lstrip().startswith("CREATE TABLE"):
                raise
    return SqlCatalog(name, **properties)


def load_table(catalog: Catalog, table: str) -> Table | None:
    """The table as the catalog has it now; None if it does not exist."""
    with translated(f"table={table}"):
        try:
            found = catalog.load_table(table)
        except NoSuchIcebergTableError:
            raise  # there is a table of this name, and it is somebody's Hive table
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
    remember(secrets_in(found.config))  # what a catalog lends us
    write_small_files_at_once(found.io)
    return found


def ensure_namespace(catalog: Catalog, namespace: str) -> None:
    """Create a namespace with its parents where missing."""
    parts = namespace.split(".")
    with translated(f"namespace={namespace}"):
        for depth in range(1, len(parts) + 1):
            catalog.create_namespace_if_not_exists(tuple(parts[:depth]))


@contextmanager
def translated(subject: str) -> Iterator[None]:
    """Turn errors of PyIceberg and of its transports into ours; `subject` names what was asked for."""
    try:
        yield
    except LakehouseError:
        raise
    except Exception as error:
        known = translate(error, subject)
        if known is None:
            raise
        raise known from error


def was_refused(error: BaseException) -> bool:
    """Whether a commit's error says for certain that this very request changed nothing.

    True proves nothing about the requests before it: botocore sends a commit again whose answer was lost, and is told
    of a conflict with itself. So the table is read first, and this is asked only if that left the question open.
    """
    if isinstance(error, CommitFailedException):
        return True
    if isinstance(error, requests.ConnectionError):
        return "NewConnectionError" in repr(error) or isinstance(error, requests.ConnectTimeout)
    return _is_sql(error) and re.search(r"database is locked|statement timeout|lock timeout", str(error)) is not None


def refused_operation(error: BaseException) -> str | None:
    """The call that was understood and is not allowed, as its service names it: `HeadObject`, `UpdateTable`.

    Empty where the service names none, None for an error that says something else.
    """
    text = _one_line(error)
    if isinstance(error, ClientError):
        denied = "AccessDenied" in str(error.response.get("Error", {}).get("Code", ""))
        return error.operation_name if denied else None
    if isinstance(error, PermissionError):
        return ""
    if isinstance(error, OSError):
        answer = _answer_of_storage(error)
        operation = re.search(r"ACCESS_DENIED during (\w+) operation", answer)
        return operation[1] if operation else "" if re.search(r"ACCESS_DENIED|AccessDenied", answer) else None
    if isinstance(error, ForbiddenError):
        return ""
    denied = _is_sql(error) and re.search(r"InsufficientPrivilege|permission denied", text) is not None
    return "" if denied else None


def translate(error: BaseException, subject: str) -> LakehouseError | None:
    """Our error for a foreign one; None if it is not one we know."""
    text = _one_line(error)
    if isinstance(error, (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError)):
        return ConfigurationError(f"{subject}: the catalog refuses our credentials: {text}")
    if isinstance(error, (requests.ConnectionError, requests.Timeout)):
        return Unavailable(f"{subject}: the catalog does not answer: {text}")
    if isinstance(error, requests.RequestException):  # an OSError too, and none of the table's storage
        return Unavailable(f"{subject}: the catalog's answer is cut off or cannot be read: {text}")
    if isinstance(error, (NoSuchTableError, NoSuchNamespaceError)):
        return ConfigurationError(f"{subject}: {text}")
    if isinstance(error, CommitFailedException):
        return Conflict(f"{subject}: somebody else changed it first: {text}")
    if isinstance(error, BadRequestError):
        return ConfigurationError(
            f"{subject}: the catalog refuses the request: {text}",
            next="compare partition_by, location and table_properties of the declaration with what the catalog allows",
        )
    if isinstance(error, RESTError):
        if re.search(r"NoSuch(Namespace|Warehouse|Bucket)|warehouse .*not found", text):
            return ConfigurationError(f"{subject}: the catalog does not know what the configuration names: {text}")
        if re.search(r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|invalid_client|Unauthorized", text):
            return ConfigurationError(f"{subject}: the catalog refuses our credentials: {text}")
        return Unavailable(f"{subject}: the catalog answers with an error: {text}")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ConfigurationError(
            f"{subject}: no space left: {text}", next="give LAKEHOUSE_SPILL a local folder with more room"
        )
    if isinstance(error, OSError):
        return _translate_storage(error, subject, text)
    return _translate_by_module(error, subject, text)


def _translate_storage(error: OSError, subject: str, text: str) -> LakehouseError:
    answer = _answer_of_storage(error)
    if re.search(r"ExpiredToken|EXPIRED", answer):
        return ConfigurationError(f"{subject}: the credentials for the table's storage have expired: {text}")
    if re.search(
        r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|InvalidAccessKeyId|SIGNATURE|Forbidden|\b403\b", answer
    ):
        return ConfigurationError(f"{subject}: the table's storage refuses our credentials: {text}")
    if re.search(r"TIME_TOO_SKEWED|TimeTooSkewed", answer):
        return ConfigurationError(f"{subject}: this machine's clock differs from the storage's: {text}")
    if re.search(r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist", answer):
        return ConfigurationError(f"{subject}: the table's bucket is missing: {text}")
    if re.search(r"HTTP status 301|AuthorizationHeaderMalformed|the bucket is located in", answer):
        return ConfigurationError(f"{subject}: the table's bucket is in another region, set s3.region: {text}")
    return Unavailable(f"{subject}: the table's storage does not answer: {text}")


def _answer_of_storage(error: OSError) -> str:
    """What the storage said, without what it was asked for: numbers and words in the names of files mean nothing."""
    text = str(error)
    _, found, answer = text.rpartition("AWS Error ")
    return answer if found else re.sub(r"'[^']*'|\"[^\"]*\"|\S*/\S*", " ", text)


def _translate_by_module(error: BaseException, subject: str, text: str) -> LakehouseError | None:
    if _is_sql(error) and type(error).__name__ in ("OperationalError", "InterfaceError", "TimeoutError"):
        if re.search(r"authentication failed|no password supplied|(role|database) \".*\" does not exist", text):
            return ConfigurationError(f"{subject}: the catalog's database refuses us: {text}")
        return Unavailable(f"{subject}: the catalog's database does not answer: {text}")
    if _is_sql(error) and re.search(r"UniqueViolation|UNIQUE constraint|DuplicateTable|already exists", text):
        # PyIceberg looks first and inserts then: of two that make the same namespace or table, one comes here.
        return Unavailable(f"{subject}: another process makes the same entry of the catalog: {text}")
    if _is_sql(error) and re.search(r"InsufficientPrivilege|permission denied", text):
        return ConfigurationError(f"{subject}: the catalog's database refuses us: {text}")
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        if re.search(r"AccessDenied|Unrecognized|Invalid|Expired|EntityNotFound", code):
            return ConfigurationError(f"{subject}: AWS refuses us: {text}")
        return Unavailable(f"{subject}: AWS answers with an error: {text}")
    if type(error).__module__.startswith("botocore"):
        if type(error).__name__ in (
            "NoCredentialsError",
            "PartialCredentialsError",
            "ProfileNotFound",
            "NoRegionError",
        ):
            return ConfigurationError(f"{subject}: {text}")
        return Unavailable(f"{subject}: AWS does not answer: {text}")
    return None


def _is_sql(error: BaseException) -> bool:
    return type(error).__module__.startswith("sqlalchemy")


def _one_line(error: BaseException) -> str:
    return redacted(re.sub(r"\s+", " ", str(error)).strip())[:300] or type(error).__name__
