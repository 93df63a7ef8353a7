"""`make dev` as a person meets it: started, told to load and to backfill, looked at in a real browser, stopped."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from lakehouse.demo.samples import CORRECTION, DAY_1, DAY_2, DAY_3, DIRTY, FIRST_TWO_DAYS, THIRD_DAY
from lakehouse.stack.ports import is_free
from tests.dev_process import Dev, processes_of, started_dev

pytestmark = pytest.mark.browser

ORDERS = "analytics.orders"
DAYS = [day.isoformat() for day in (DAY_1, DAY_2, DAY_3)]
READINGS_FILES = {key: body for key, body in FIRST_TWO_DAYS.items() if key.startswith("telemetry/")}
ORDERS_FILES = {key: body for key, body in FIRST_TWO_DAYS.items() if key not in READINGS_FILES}
GREEN = {"counts_reconcile", "freshness", "gates", "keys_unique", "objects_complete"}
LATE = "late_arrivals"
"""Warns: the files of the demo land months after the days that they belong to."""

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGE_SECONDS = 30


@pytest.fixture
def chromium() -> Path:
    """The system's Chromium."""
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        pytest.skip("browser: Chromium is missing, apt-get install chromium")
    return Path(found[0])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A developer's home folder, with settings of AWS and PyIceberg that are for something else."""
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws/config").write_text("[default]\nregion = eu-central-1\nendpoint_url = http://127.0.0.1:9\n")
    (home / ".pyiceberg.yaml").write_text("catalog:\n  default:\n    rest.sigv4-enabled: true\n")
    return home


@pytest.fixture
def dev(chromium: Path, home: Path, tmp_path: Path) -> Iterator[Dev]:
    with started_dev(tmp_path, home) as dev:
        yield dev


@contextmanager
def opened(chromium: Path, folder: Path) -> Iterator[Page]:
    """An empty page; it and its browser are gone when the block ends."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder / "profile",
            executable_path=chromium,
            args=FLAGS,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            viewport={"width": 1500, "height": 1400},
        )
        context.set_default_timeout(PAGE_SECONDS * 1000)
        expect.set_options(timeout=PAGE_SECONDS * 1000)
        yield context.pages[0]
        context.close()


def test_a_person_loads_backfills_looks_and_stops(dev: Dev, home: Path, chromium: Path, tmp_path: Path) -> None:
    at_home = sorted(home.rglob("*"))
    dev.land(READINGS_FILES)  # nobody asks for them: they are the sensor's
    dev.wait_said("Dagster UI: ", seconds=120)
    assert set(dev.automation().values()) == {"RUNNING"} and len(dev.automation()) == 4

    dev.stop_sensor("analytics__orders_landing")
    dev.land(ORDERS_FILES | THIRD_DAY | CORRECTION | DIRTY)
    run = dev.launch(ORDERS, DAYS[0])
    assert dev.wait("the run ends", lambda: dev.run_status(run), seconds=90) == "SUCCESS", dev.said()
    assert_green(dev, DAYS[0])

    with opened(chromium, tmp_path / "browser") as page:
        first = {"bookmark_version": "1", "rows_inserted": "3", "dagster/row_count": "3"}
        see_partition(page, dev, DAYS[0], counts=first, green=1)

        backfill = dev.launch_backfill(ORDERS, DAYS)
        status = dev.wait("the backfill ends", lambda: dev.backfill_status(backfill), seconds=180)
        assert status == "COMPLETED_SUCCESS", dev.said()
        assert dev.runs("dagster/backfill", backfill) == [(day, "SUCCESS") for day in DAYS]
        assert_green(dev, DAYS[2])
        see_overview(page, dev, tmp_path / "overview.png")
        see_checks(page, dev, tmp_path / "checks.png")
        again = {"lakehouse/state": "nothing_to_do", "bookmark_version": "1", "rows_inserted": "0"}
        see_partition(page, dev, DAYS[0], counts=again, green=3)
        page.screenshot(path=tmp_path / "partition.png")

    loaded = [(day, "SUCCESS") for day in DAYS[:2]]
    by_sensor = ("dagster/sensor_name", "telemetry__readings_landing")
    dev.wait("the sensor's runs", lambda: dev.runs(*by_sensor) == loaded or None, seconds=60)

    ports = [dev.port, *dev.stack.ports.as_dict().values()]
    assert dev.stop() == 0, dev.said()
    assert processes_of(tmp_path) == {}
    # a killed server gives up its ports a moment after it is gone from the list of processes
    deadline = time.monotonic() + 15
    while taken := [port for port in ports if not is_free(port)]:
        assert time.monotonic() < deadline, taken
        time.sleep(0.1)
    assert sorted(home.rglob("*")) == at_home


def assert_green(dev: Dev, day: str) -> None:
    """Every check was evaluated for the latest materialization, which is of `day`, and passed, or warns."""
    checks = dev.checks(ORDERS)
    assert {name for name, check in checks.items() if check["success"]} == GREEN, checks
    assert set(checks) == GREEN | {LATE} and checks[LATE]["severity"] == "WARN"
    assert {check["partition"] for check in checks.values()} == {day}


def see_overview(page: Page, dev: Dev, picture: Path) -> None:
    """The newest day with its counts, five green checks and a warning, and the size of the table."""
    page.goto(f"{dev.url}/assets/analytics/orders")
    expect(page.get_by_role("link", name=DAYS[2])).to_be_visible()
    newest = {"lakehouse/state": "committed", "bookmark_version": "3", "rows_read": "8"}
    assert shown(page).items() >= (newest | {"rows_inserted": "4", "rows_updated": "1", "rows_rejected": "2"}).items()
    expect_text(page, r"Latest check results\s+1\s+5\s+Row count\s+9\s")
    page.screenshot(path=picture)


def see_partition(page: Page, dev: Dev, day: str, *, counts: Mapping[str, str], green: int) -> None:
    """`green` days are materialized, this one among them, and it says what its load did."""
    page.goto(f"{dev.url}/assets/analytics/orders?view=partitions&partition={day}")
    expect(page.get_by_text(f"Materialized ({green})", exact=True)).to_be_visible()
    expect_text(page, rf"{day}\s+Materialized\s+Latest materialization")
    assert shown(page).items() >= counts.items()


def see_checks(page: Page, dev: Dev, picture: Path) -> None:
    """Every check by name with its state."""
    page.goto(f"{dev.url}/assets/analytics/orders?view=checks")
    for name in sorted(GREEN | {LATE}):
        listed = page.get_by_title(name, exact=True).first.locator("..")
        expect(listed).to_have_text(re.compile("Failed$" if name == LATE else "Succeeded$"))
    expect(page.get_by_text("table: rows = published rows: 9 = 9")).to_be_visible()
    page.screenshot(path=picture)


def expect_text(page: Page, pattern: str) -> None:
    """Wait until what can be read on the page matches."""
    expect(page.locator("body")).to_have_text(re.compile(pattern), use_inner_text=True)


def shown(page: Page) -> dict[str, str]:
    """The metadata on the page: first and last filled cell of each row."""
    page.get_by_role("cell", name="rows_inserted", exact=True).wait_for(state="attached")
    rows = page.evaluate("[...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.innerText))")
    filled = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    return {row[0]: row[-1] for row in filled if row}
