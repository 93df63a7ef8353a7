"""One field of a table's partition spec, as a declaration writes it: `day(order_time)`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakehouse.types import ColumnType

_TIMES = ("timestamp", "timestamptz")
_FITS: dict[str, tuple[str, ...]] = {
    "year": ("date", *_TIMES),
    "month": ("date", *_TIMES),
    "day": ("date", *_TIMES),
    "hour": _TIMES,
    "truncate": ("int", "long", "decimal", "string", "binary"),
    "bucket": ("int", "long", "decimal", "date", "time", *_TIMES, "string", "uuid", "binary"),
}
TRANSFORMS = ("identity", *_FITS)
TIME_TRANSFORMS = ("year", "month", "day", "hour")
_WITH_WIDTH = ("bucket", "truncate")
_CALL = re.compile(r"(?P<transform>\w+)\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<source>[^(),]+?)\s*\)")


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A source column and an Iceberg transform. `width` is set for bucket and truncate alone."""

    source: str
    transform: str = "identity"
    width: int | None = None

    @property
    def name(self) -> str:
        """The name of the field in the partition spec."""
        return self.source if self.transform == "identity" else f"{self.source}_{self.transform}"


def parse_partition_field(text: str) -> PartitionField:
    """Read `column` or `transform(column)`. Raises ValueError saying what would be right."""
    text = text.strip()
    if not re.search(r"[(),]", text) and text:
        return PartitionField(text)
    call = _CALL.fullmatch(text)
    if not call:
        raise ValueError("expected a column or a transform such as day(order_time), truncate(4, name)")
    transform = call["transform"].lower()
    if transform not in TRANSFORMS:
        singular = transform.removesuffix("s")
        near = f"{singular}({call['source']})" if singular in TRANSFORMS else f"one of {', '.join(TRANSFORMS)}"
        raise ValueError(f"expected {near}")
    width = int(call["width"]) if call["width"] else None
    if (transform in _WITH_WIDTH) != bool(width):
        needs = "a width above 0, such as truncate(4, name)" if transform in _WITH_WIDTH else "no width"
        raise ValueError(f"expected {transform} with {needs}")
    return PartitionField(call["source"], transform, width)


def fits(field: PartitionField, column: ColumnType) -> bool:
    """Whether Iceberg allows the transform on the type."""
    return field.transform == "identity" or column.name in _FITS[field.transform]


def fitting(transform: str) -> tuple[str, ...]:
    """The types that a transform other than identity takes."""
    return _FITS[transform]
