"""One field of a table's partition spec, as a declaration writes it: `day(order_time)`. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.types import ColumnType

_TIMES = ("timestamp", "timestamptz")
_FITS: dict[str, tuple[str, ...]] = {
    "year": ("date", *_TIMES),
    "month": ("date", *_TIMES),
    "day": ("date", *_TIMES),
    "hour": _TIMES,
    "truncate": ("int", "long", "decimal", "string", "binary"),
    "bucket": ("int", "long", "decimal", "date", "time", *_TIMES, "string", "uuid", "fixed", "binary"),
}
TRANSFORMS = ("identity", *_FITS)
TIME_TRANSFORMS = ("year", "month", "day", "hour")
_WITH_WIDTH = ("bucket", "truncate")
WIDEST = 2**31 - 1
_CALL = re.compile(r"(?P<transform>\w+)\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<source>[^(),]+?)\s*\)")


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A source column and an Iceberg transform. `width` is set for bucket and truncate alone."""

    source: str
    transform: str = "identity"
    width: int | None = None

    @property
    def name(self) -> str:
        """The name of the field in the partition spec, as Iceberg and Spark give it."""
        if self.transform == "identity":
            return self.source
        return f"{self.source}_{'trunc' if self.transform == 'truncate' else self.transform}"


def field_names(fields: Sequence[PartitionField]) -> tuple[str, ...]:
    """The names of all fields of one spec: those that would be alike carry their widths, such as `id_bucket_16`."""
    alike = Counter(field.name for field in fields)
    return tuple(f"{field.name}_{field.width}" if alike[field.name] > 1 else field.name for field in fields)


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
    if width is not None and width > WIDEST:
        raise ValueError(f"expected a width up to {WIDEST}, which is all that Iceberg holds")
    return PartitionField(call["source"], transform, width)


def fits(field: PartitionField, column: ColumnType) -> bool:
    """Whether Iceberg allows the transform on the type."""
    return not column.nested if field.transform == "identity" else column.name in _FITS[field.transform]


def fitting(transform: str) -> tuple[str, ...]:
    """The types that a transform takes."""
    return _FITS.get(transform, ("any type but struct, list and map",))
