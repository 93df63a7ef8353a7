"""The files that the demo lands, by step. Pure; small enough to read."""

from __future__ import annotations

import json
from datetime import date

DAY_1, DAY_2, DAY_3 = date(2026, 8, 30), date(2026, 8, 31), date(2026, 9, 1)

_HEADER = "order_id,customer_id,amount,order_time\n"


def _csv(*rows: str) -> bytes:
    return (_HEADER + "".join(f"{row}\n" for row in rows)).encode()


def _jsonl(*rows: tuple[str, str, str, float, bool]) -> bytes:
    names = ("device_id", "read_at", "sent_at", "temperature", "ok")
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()


def orders_key(day: date, name: str) -> str:
    return f"orders/input_date={day}/{name}.csv"


def readings_key(day: date, name: str) -> str:
    return f"telemetry/readings/{day:%Y/%m/%d}/{name}.jsonl"


FIRST_TWO_DAYS = {
    orders_key(DAY_1, "shop"): _csv(
        "1001,anna,20.00,2026-08-30T09:00:00Z",
        "1002,ben,35.50,2026-08-30T10:30:00Z",
        "1003,cleo,12.25,2026-08-30T18:45:00Z",
    ),
    orders_key(DAY_2, "shop"): _csv("1004,dora,99.00,2026-08-31T08:00:00Z", "1005,emil,5.10,2026-08-31T12:00:00Z"),
    readings_key(DAY_1, "gateway-1"): _jsonl(
        ("d-1", "2026-08-30T00:00:00Z", "2026-08-30T00:00:05Z", 21.5, True),
        ("d-2", "2026-08-30T00:00:00Z", "2026-08-30T00:00:07Z", 19.0, True),
    ),
    readings_key(DAY_2, "gateway-1"): _jsonl(
        ("d-1", "2026-08-31T00:00:00Z", "2026-08-31T00:00:04Z", 22.0, True),
        ("d-2", "2026-08-30T00:00:00Z", "2026-08-31T00:00:09Z", 18.9, False),  # d-2 corrects yesterday's reading
    ),
}
THIRD_DAY = {
    orders_key(DAY_3, "shop"): _csv("1006,finn,42.00,2026-09-01T07:15:00Z", "1007,gina,17.80,2026-09-01T09:00:00Z")
}
LATE_FILE = {orders_key(DAY_1, "shop-late"): _csv("1008,hugo,64.00,2026-08-30T23:50:00Z")}
CORRECTION = {orders_key(DAY_3, "corrections"): _csv("1002,ben,30.50,2026-09-01T10:00:00Z")}
STALE = {orders_key(DAY_2, "replayed"): _csv("1002,ben,35.50,2026-08-31T06:00:00Z")}
DIRTY = {
    orders_key(DAY_3, "dirty"): _csv(
        "1009,ida,8.00,2026-09-01T11:00:00Z",
        "1009,ida,8.50,2026-09-01T11:05:00Z",
        ",jan,3.00,2026-09-01T11:10:00Z",
        "1010,kai,12.505,2026-09-01T11:15:00Z",
        "1011,lea,7.70,2026-09-01T11:20:00Z",
    )
}
OVERWRITTEN_KEY = orders_key(DAY_2, "shop")
OVERWRITTEN = {OVERWRITTEN_KEY: _csv("1004,dora,101.00,2026-08-31T08:00:00Z", "1005,emil,5.10,2026-08-31T12:00:00Z")}
OLD_CONTENT = {OVERWRITTEN_KEY: FIRST_TWO_DAYS[OVERWRITTEN_KEY]}
BEFORE_CRASH = {orders_key(DAY_3, "evening"): _csv("1012,mia,55.00,2026-09-01T19:00:00Z")}
BEFORE_SECOND_CRASH = {orders_key(DAY_3, "night"): _csv("1013,noah,23.40,2026-09-01T23:00:00Z")}
