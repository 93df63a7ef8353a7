"""What a load needs from outside, as one value: catalog, state, clock, ids, progress. Real ones are opened here."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog

from lakehouse.catalog import open_catalog
from lakehouse.errors import ConfigurationError
from lakehouse.faults import check_fault
from lakehouse.redaction import remember, secrets_in
from lakehouse.scratch import check_spill
from lakehouse.settings import Settings, read_settings
from lakehouse.step_log import StepLog, silent
from lakehouse.storage import Storage, open_storage

LEASE_WAIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a step stands. `total` 0 is unknown; `seconds_left` is an estimate."""

    step: str
    done: int
    total: int
    rows: int
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """The outside of a load; tests replace single parts."""

    catalog: Catalog
    catalog_name: str
    state: Storage
    settings: Settings
    env: Mapping[str, str]
    now: Callable[[], datetime]
    clock: Callable[[], float]
    new_id: Callable[[], str]
    pause: Callable[[float], None]
    progress: Callable[[Progress], None]
    lease_wait: float = LEASE_WAIT_SECONDS
    log: StepLog = silent


def open_services(
    env: Mapping[str, str] | None = None,
    *,
    catalog: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    log: StepLog = silent,
) -> Services:
    """Open the catalog and the state store that the environment names. Raises ConfigurationError or Unavailable."""
    env = os.environ if env is None else env
    remember(secrets_in(env))
    check_fault(env)
    settings = read_settings(env)
    check_spill(settings.spill)
    name = catalog or settings.catalog
    opened = open_catalog(name)
    return Services(
        catalog=opened,
        catalog_name=name,
        state=open_storage(state_address(settings, opened), env),
        settings=settings,
        env=env,
        now=lambda: datetime.now(UTC),
        clock=time.monotonic,
        new_id=lambda: uuid.uuid4().hex,
        pause=time.sleep,
        progress=progress or (lambda _: None),
        log=log,
    )


def state_address(settings: Settings, catalog: Catalog) -> str:
    """Where the state lies: a plain warehouse may hold it, in a folder that is no table's (DESIGN §3).

    Raises ConfigurationError where what is set is no address, or none is set and the warehouse cannot hold it.
    """
    if settings.state:
        if not re.match(r"s3://[^/]|file:///", settings.state):
            raise ConfigurationError(
                f"LAKEHOUSE_STATE: storage is s3://bucket/folder or file:///folder: {settings.state}",
                next="export LAKEHOUSE_STATE=s3://<bucket>/lakehouse",
            )
        return settings.state
    warehouse = str(catalog.properties.get("warehouse", ""))
    if warehouse.startswith(("s3://", "file://")):
        return warehouse.rstrip("/") + "/.lakehouse"
    raise ConfigurationError(
        f"LAKEHOUSE_STATE is not set, and the warehouse {warehouse or '(none)'} is no s3:// or file:// folder",
        next="export LAKEHOUSE_STATE=s3://<a plain bucket>/lakehouse",
    )
