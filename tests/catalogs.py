"""The session's S3 with a catalog of another kind before it, and a lake on it that opens its catalog once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from pyiceberg.catalog import Catalog, load_catalog

from lakehouse.catalog import open_catalog
from lakehouse.services import Services, open_services
from lakehouse.stack import catalog_properties
from tests.lake import Lake, changed_environment
from tests.services.faulty_http import FaultyHttp
from tests.services.faulty_tcp import FaultyPostgres
from tests.services.postgres import OWNER

NAME = "default"
_S3 = ("s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.region")


@dataclass(frozen=True)
class CatalogStack:
    """`real` is the stack fixture. Table data of every kind lies on its S3; `properties` reach the catalog."""

    real: Any
    kind: str
    properties: Mapping[str, str]

    @property
    def s3(self) -> Any:
        return self.real.s3

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in self.real.env.items() if not k.startswith("PYICEBERG_CATALOG__")}
        return kept | {_variable(name): value for name, value in self.properties.items()}

    def catalog(self) -> Catalog:
        return _open_once(tuple(self.properties.items()))

    def through(self, url: str) -> CatalogStack:
        """The same catalog, reached over another address."""
        key = "glue.endpoint" if self.kind == "glue" else "uri"
        return replace(self, properties={**self.properties, key: url})


class CatalogLake(Lake):
    """A lake that opens its catalog once: making a client for Glue takes half a second."""

    def services(self, **changes: Any) -> Services:
        with changed_environment(self.env):
            return replace(open_shared(self.env), **changes)


def open_shared(env: Mapping[str, str]) -> Services:
    """Services as `open_services` makes them, with one catalog client for each configuration.

    The client is a copy, so that a test may put something before its `commit_table`. `env` is also the process's own.
    """
    configuration = tuple(sorted((k, v) for k, v in env.items() if k.startswith("PYICEBERG_CATALOG__")))
    with patch("lakehouse.services.open_catalog", lambda name: copy.copy(_client(name, configuration))):
        return open_services(env)


@lru_cache(maxsize=16)
def _client(name: str, configuration: tuple[tuple[str, str], ...]) -> Catalog:
    return open_catalog(name)


@lru_cache(maxsize=16)
def _open_once(properties: tuple[tuple[str, str], ...]) -> Catalog:
    return load_catalog(NAME, **dict(properties))


def rest_stack(real: Any) -> CatalogStack:
    return CatalogStack(real, "rest", catalog_properties(real.stack))


def postgres_stack(real: Any, port: int) -> CatalogStack:
    uri = postgres_uri(port)
    return CatalogStack(real, "postgres", {"type": "sql", "uri": uri, **_plain_warehouse(real, "postgres")})


def glue_stack(real: Any, door: FaultyHttp) -> CatalogStack:
    own = {
        "type": "glue",
        "glue.endpoint": door.url,
        "glue.region": "us-east-1",
        "glue.access-key-id": "nobody",
        "glue.secret-access-key": "nothing",
    }
    return CatalogStack(real, "glue", {**own, **_plain_warehouse(real, "glue")})


def postgres_uri(port: int) -> str:
    return f"postgresql+psycopg2://{OWNER}@127.0.0.1:{port}/postgres"


def through_relay(stack: CatalogStack, relay: FaultyPostgres) -> CatalogStack:
    return stack.through(postgres_uri(relay.port))


def _plain_warehouse(real: Any, name: str) -> dict[str, str]:
    """Tables of a catalog that does not manage their storage: a folder of a plain bucket."""
    properties = catalog_properties(real.stack)
    return {"warehouse": f"s3://landing/warehouse-{name}", **{key: properties[key] for key in _S3}}


def _variable(name: str) -> str:
    """PyIceberg reads `__` as a dot and `_` as a dash."""
    return f"PYICEBERG_CATALOG__{NAME.upper()}__" + name.upper().replace(".", "__").replace("-", "_")
