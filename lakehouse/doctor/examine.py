"""Everything that `lakehouse doctor` looks at, in order; each place once, however many tables share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pyiceberg.catalog import Catalog

from lakehouse.catalog import open_catalog
from lakehouse.declaration import Declaration
from lakehouse.doctor.buckets import check_source, check_state
from lakehouse.doctor.catalogs import account_of, check_catalog, check_table
from lakehouse.doctor.check import Check, Standing, missing, ok, skipped, warning
from lakehouse.doctor.machine import check_credentials, check_releases, check_room
from lakehouse.errors import ConfigurationError, LakehouseError, RetryLater
from lakehouse.position import find_position
from lakehouse.services import Services, open_services, state_address
from lakehouse.settings import Settings, read_settings
from lakehouse.storage import Patience, open_storage

PATIENCE = Patience(connect=3, answer=10, body=10, retries=1, give_up=5)
"""Somebody waits: a second try at most."""


def examine(
    declarations: Sequence[Declaration],
    env: Mapping[str, str],
    *,
    now: Callable[[], datetime],
    new_id: Callable[[], str],
) -> Iterator[Check]:
    """Look at the machine, at every source, at every catalog with its tables, and at the state of each.

    Changes nothing but probes of its own, which it removes again. Raises only what is a bug.
    """
    yield check_releases()
    try:
        settings = read_settings(env)
    except ConfigurationError as error:
        yield missing("settings", "environment", error.message, next=error.next)
        return
    yield ok("settings", "environment", f"catalog={settings.catalog} ops_namespace={settings.ops_namespace}")
    sources = {source.uri: source for one in declarations for source in one.sources}
    largest = max((source.max_bytes or 0 for source in sources.values()), default=0)
    yield check_room(settings.spill, largest_batch=largest)
    yield from check_credentials(env)
    for uri in sources:
        yield from _source(uri, env, new_id=new_id)
    catalogs = dict.fromkeys([one.catalog or settings.catalog for one in declarations] or [settings.catalog])
    states: dict[str, bool] = {}
    for name in catalogs:
        here = [one for one in declarations if (one.catalog or settings.catalog) == name]
        tables = [one.table for one in here]
        opened = _opened(name)
        if isinstance(opened, Check):
            yield opened
            yield from (skipped("table load", table, "the catalog could not be opened") for table in tables)
        else:
            yield ok("catalog", name, _described(opened))
            yield from _tables(opened, name, tables, settings, new_id=new_id)
        address = _state(settings, opened)
        if isinstance(address, Check):
            yield address
            continue
        if address not in states:
            found = [*_state_checks(address, env, now=now, new_id=new_id)]
            states[address] = all(check.standing is not Standing.MISSING for check in found)
            yield from found
        if not isinstance(opened, Check):
            yield from _bookmarks(here, name, address if states[address] else None, env)


def _source(uri: str, env: Mapping[str, str], *, new_id: Callable[[], str]) -> Iterator[Check]:
    try:
        storage = open_storage(uri, env, patience=PATIENCE)
    except ConfigurationError as error:  # `credentials` has said what to do
        yield skipped("source list", uri, error.message)
        yield skipped("source read", uri, error.message)
    else:
        yield from check_source(storage, uri=uri, region=region_of(env), new_id=new_id())


def _opened(name: str) -> Catalog | Check:
    try:
        return open_catalog(name)
    except LakehouseError as error:
        return _told("catalog", name, error)


def _described(catalog: Catalog) -> str:
    service = account_of(catalog).service
    warehouse = catalog.properties.get("warehouse") or "the catalog's own"
    return f"{service}, warehouse={warehouse}"


def _tables(
    catalog: Catalog, name: str, tables: Sequence[str], settings: Settings, *, new_id: Callable[[], str]
) -> Iterator[Check]:
    for table in tables:
        yield from check_table(catalog, table, new_id=new_id(), state=settings.state)
    yield from check_catalog(catalog, name, ops_namespace=settings.ops_namespace, new_id=new_id())


def _state(settings: Settings, catalog: Catalog | Check) -> str | Check:
    if isinstance(catalog, Check):
        return settings.state or skipped("state create", "LAKEHOUSE_STATE", "not set, and the catalog did not open")
    try:
        return state_address(settings, catalog)
    except ConfigurationError as error:
        return _told("state create", "LAKEHOUSE_STATE", error)


def _state_checks(
    address: str, env: Mapping[str, str], *, now: Callable[[], datetime], new_id: Callable[[], str]
) -> Iterator[Check]:
    try:
        storage = open_storage(address, env, patience=PATIENCE)
    except ConfigurationError as error:
        yield _told("state create", address, error)
    else:
        yield from check_state(storage, region=region_of(env), new_id=new_id(), now=now)


def _bookmarks(
    declarations: Sequence[Declaration], catalog: str, address: str | None, env: Mapping[str, str]
) -> Iterator[Check]:
    """Whether every source of each table finds its bookmark, and the state behind it, where these settings point;
    `address` is None where the state cannot be used."""
    if address is None:
        yield from (skipped("bookmark", one.table, "the state cannot be used") for one in declarations)
        return
    try:
        services = open_services(env, catalog=catalog)
        services = replace(services, state=open_storage(address, env, patience=PATIENCE))
    except LakehouseError as error:
        yield from (_told("bookmark", one.table, error) for one in declarations)
    else:
        yield from (_bookmark(one, services) for one in declarations)


def _bookmark(declaration: Declaration, services: Services) -> Check:
    try:
        versions = [find_position(one, services).bookmark.version for one in declaration.by_source]
    except LakehouseError as error:
        if error.exit_code not in (ConfigurationError.exit_code, RetryLater.exit_code):
            command = f"lakehouse diagnose {declaration.table}"
            return warning("bookmark", declaration.table, error.message, next=command)
        return _told("bookmark", declaration.table, error)
    return ok("bookmark", declaration.table, "at version " + ", ".join(map(str, versions)))


def _told(name: str, subject: str, error: LakehouseError) -> Check:
    return missing(name, subject, error.message, next=error.next, exit_code=error.exit_code)


def region_of(env: Mapping[str, str]) -> str:
    """What the environment says; it decides which AWS partition the names of resources are in."""
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""
