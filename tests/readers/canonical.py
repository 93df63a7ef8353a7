"""One form of every value, whichever reader it comes from. Standard library alone: all servers use it."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID


def canonical(value: Any) -> Any:
    """A value as JSON can hold it, equal for two readers exactly if they read the same value.

    Instants are UTC with microseconds, naive timestamps have no zone, decimals keep their scale, NaN and -0.0 are what
    they are. Structs are mappings, and so are maps, whose keys become text.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return "nan" if math.isnan(value) else repr(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value
            return moment.isoformat(timespec="microseconds")
        case time():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case UUID():
            return str(value)
        case dict():
            return {_key(k): canonical(v) for k, v in sorted(value.items(), key=lambda item: _key(item[0]))}
        case list() | tuple():
            return [canonical(v) for v in value]
    raise TypeError(f"no canonical form: type={type(value).__name__}")


def _key(key: Any) -> str:
    return str(canonical(key))
