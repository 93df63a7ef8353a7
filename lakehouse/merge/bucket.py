"""Iceberg's bucket transform as SQL: Murmur3 (x86, 32 bits) of a value's bytes, modulo the number of buckets. Pure.

DuckDB has no such hash, and functions in Python need numpy and hold the interpreter's lock, so it is spelled out in
arithmetic on unsigned numbers; what is a multiplication modulo 2^32 there is a `&` with the mask here. Source: the
Iceberg specification, Appendix B, and MurmurHash3 by Austin Appleby.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_MAX_HUGEINT = (1 << 127) - 1


def bucket(kind: str, width: int, source: str) -> str:
    """SQL of the bucket, 0 to `width` - 1, of a non-nested column of the type named `kind`; NULL of NULL."""
    match kind:
        case "int" | "long":
            hashed = _of_long(f"({source})::BIGINT")
        case "date":
            hashed = _of_long(f"({source} - DATE '1970-01-01')::BIGINT")
        case "time" | "timestamp" | "timestamptz":
            hashed = _of_long(f"epoch_us({source})")
        case "string":
            hashed = _of_bytes(f"encode({source})")
        case "uuid":
            hashed = _of_bytes(f"unhex(replace(({source})::VARCHAR, '-', ''))")
        case "decimal":
            hashed = _of_bytes(_decimal_bytes(source))
        case _:
            hashed = _of_bytes(source)
    return f"(({hashed} & {_POSITIVE}) % {width})::INTEGER"


def _times(x: str, factor: int) -> str:
    return f"(({x})::UBIGINT * {factor} & {_MASK})"


def _rotated(x: str, bits: int) -> str:
    """A rotation to the left that names its operand once: modulo 2^32 - 1, with - 1 and + 1 so that all ones stay."""
    return f"((({x})::BIGINT * {1 << bits} - 1) % {_MASK} + 1)"


def _scrambled(block: str) -> str:
    return _times(_rotated(_times(block, 0xCC9E2D51), 15), 0x1B873593)


def _mixed(state: str, block: str) -> str:
    return f"(({_rotated(f'xor(({state})::UBIGINT, {_scrambled(block)})', 13)} * 5 + 3864292196) & {_MASK})"


def _finished(state: str) -> str:
    """A one-element list binds the state to a name, for it stands twice in every step."""
    first = f"list_transform([({state})::UBIGINT], lambda h: {_times('xor(h, h >> 16)', 0x85EBCA6B)})"
    second = f"list_transform({first}, lambda h: {_times('xor(h, h >> 13)', 0xC2B2AE35)})"
    return f"list_transform({second}, lambda h: xor(h, h >> 16))[1]"


def _of_long(value: str) -> str:
    """The hash of eight bytes, lowest first."""
    low, high = f"({value} & {_MASK})", f"(({value} >> 32) & {_MASK})"
    return _finished(f"xor({_mixed(_mixed('0', low), high)}::UBIGINT, 8)")


def _of_bytes(value: str) -> str:
    """The hash of a BLOB: blocks of four bytes, then the up to three bytes that are left, then the length."""
    length = "octet_length(bytes)"
    block = _lowest_first("number")
    number = "array_slice(bytes, start, start + 3)::BIT::UINTEGER::UBIGINT"
    blocks = f"list_transform(range(1, {length} - 2, 4), lambda start: {number})"
    state = f"list_reduce({blocks}, lambda state, number: {_mixed('state', block)}, 0::UBIGINT)"
    after = f"{length} // 4 * 4"
    rest = rf"array_slice(bytes || '\x00\x00\x00'::BLOB, {after} + 1, {after} + 4)::BIT::UINTEGER::UBIGINT"
    left = f"list_transform([{rest}], lambda number: {_scrambled(block)})[1]"
    hashed = _finished(f"xor(xor(({state})::UBIGINT, {left}), {length}::UBIGINT)")
    return f"list_transform([{value}], lambda bytes: {hashed})[1]"


def _lowest_first(number: str) -> str:
    """Four bytes that were read highest first."""
    return f"((({number} & 255) << 24) | (({number} & 65280) << 8) | (({number} >> 8) & 65280) | ({number} >> 24))"


def _decimal_bytes(source: str) -> str:
    """The shortest two's complement of the unscaled value, highest byte first."""
    whole = (
        f"CASE WHEN unscaled >= 0 THEN unscaled::UHUGEINT "
        f"ELSE (unscaled + {_MAX_HUGEINT}::HUGEINT)::UHUGEINT + {_MAX_HUGEINT + 2}::UHUGEINT END"
    )
    magnitude = "(CASE WHEN unscaled < 0 THEN -(unscaled + 1) ELSE unscaled END)::UHUGEINT"
    # one bit more for the sign
    length = f"(length(hex({magnitude} * 2)) + 1) // 2"
    shortest = f"array_slice(unhex(lpad(hex({whole}), 32, '0')), 17 - {length}, 16)"
    unscaled = f"replace(({source})::VARCHAR, '.', '')::HUGEINT"
    return f"list_transform([{unscaled}], lambda unscaled: {shortest})[1]"
