"""Opens the Iceberg catalog and translates its errors, once, into ours. Never writes a table."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from lakehouse.errors import ConfigurationError, LakehouseError, Unavailable
from lakehouse.iceberg import TimedRestCatalog, is_supported


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
    texts = {str(key): str(value) for key, value in properties.items()}
    is_rest = texts.get("type") == "rest" or ("type" not in texts and texts.get("uri", "").startswith("http"))
    with translated(f"catalog={name}"):
        try:
            catalog = TimedRestCatalog(name, **texts) if is_rest else load_catalog(name, **texts)
        except (TypeError, ValueError, AttributeError, KeyError, ImportError, NotInstalledError) as error:
            # the properties of the environment and of ~/.pyiceberg.yaml together: PyIceberg does not say which is off
            raise ConfigurationError(
                f"catalog {name} cannot be opened: {type(error).__name__}: {_one_line(error)}: "
                f"properties={', '.join(sorted(texts))}"
            ) from error
    if not is_supported(catalog):
        raise ConfigurationError(f"catalog {name}: type {type(catalog).__name__} is not supported; REST, SQL or Glue")
    return catalog


def load_table(catalog: Catalog, table: str) -> Table | None:
    """The table as the catalog has it now; None if it does not exist."""
    with translated(f"table={table}"):
        try:
            return catalog.load_table(table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None


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


def translate(error: BaseException, subject: str) -> LakehouseError | None:
    """Our error for a foreign one; None if it is not one we know."""
    text = _one_line(error)
    if isinstance(error, (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError)):
        return ConfigurationError(f"{subject}: the catalog refuses our credentials: {text}")
    if isinstance(error, (requests.ConnectionError, requests.Timeout)):
        return Unavailable(f"{subject}: the catalog does not answer: {text}")
    if isinstance(error, (NoSuchTableError, NoSuchNamespaceError)):
        return ConfigurationError(f"{subject}: {text}")
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
        return _translate_storage(subject, text)
    return _translate_by_module(error, subject, text)


def _translate_storage(subject: str, text: str) -> LakehouseError:
    if re.search(r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|InvalidAccessKeyId|SIGNATURE|Forbidden|403", text):
        return ConfigurationError(f"{subject}: the table's storage refuses our credentials: {text}")
    if re.search(r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist", text):
        return ConfigurationError(f"{subject}: the table's bucket is missing: {text}")
    return Unavailable(f"{subject}: the table's storage does not answer: {text}")


def _translate_by_module(error: BaseException, subject: str, text: str) -> LakehouseError | None:
    module = type(error).__module__
    name = type(error).__name__
    if module.startswith("sqlalchemy") and name in ("OperationalError", "InterfaceError", "TimeoutError"):
        return Unavailable(f"{subject}: the catalog's database does not answer: {text}")
    if module.startswith("botocore"):
        if name in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "NoRegionError"):
            return ConfigurationError(f"{subject}: {text}")
        if name == "ClientError" and re.search(r"AccessDenied|Unrecognized|Invalid|Expired", text):
            return ConfigurationError(f"{subject}: AWS refuses our credentials: {text}")
        return Unavailable(f"{subject}: AWS does not answer: {text}")
    return None


def _one_line(error: BaseException) -> str:
    return re.sub(r"\s+", " ", str(error)).strip()[:300] or type(error).__name__
