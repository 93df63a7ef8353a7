"""The SQL of strict casts: text into a column type, where a value may change its spelling but never itself.

Each cast is one DuckDB expression over a VARCHAR expression. It is NULL where the text is NULL and where the text does
not say a value of the type; the caller tells the two apart. DuckDB's own casts bend (`12.75` to 13, `24:00:00` to the
next day), so a cast counts when printing it gives the text back, or when the text matches a grammar that leaves
nothing to bend. Pure: makes SQL text, never runs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lakehouse.errors import NotAvailable
from lakehouse.naming import quote_text
from lakehouse.types import ColumnType

BLANKS = quote_text(" \t")
TRUE_WORDS = ("true", "t", "yes", "y", "1")
FALSE_WORDS = ("false", "f", "no", "n", "0")

_INTEGER = r"[+-]?[0-9]+(?:\.0*)?"
_PLAIN = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_SCIENTIFIC = _PLAIN + r"(?:[eE][+-]?[0-9]+)?"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6}0*)?)?"
_TIMESTAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]" + _TIME
_OFFSET = r"(?:Z|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9])?)"
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_HEX = r"(?:[0-9A-Fa-f]{2})*"
_YEARS = ("0001-01-01", "9999-12-31")
_UTC_NAMES = ("UTC", "ETC/UTC", "Z")


@dataclass(frozen=True, slots=True)
class CastRules:
    """What a declaration says about spellings. Formats are strptime's; words are compared without case."""

    timezone: str = "UTC"
    date_format: str | None = None
    timestamp_format: str | None = None
    dst_overlap: str = "later"
    true_words: tuple[str, ...] = TRUE_WORDS
    false_words: tuple[str, ...] = FALSE_WORDS
    binary: str = "hex"
    decimal: str = "."
    thousands: str | None = None


def cast(kind: ColumnType, text: str, rules: CastRules) -> str:
    """SQL of `text` (an SQL expression of type VARCHAR) as `kind`; NULL where it says no value of that type."""
    match kind.name:
        case "string":
            return text
        case "boolean":
            return _boolean(text, rules)
        case "int" | "long" | "float" | "double" | "decimal":
            return _local(text, rules, lambda spelled: _number(kind, spelled))
        case "date":
            return _date(text, rules.date_format)
        case "time":
            return f"CASE WHEN {_matches(text, _TIME)} THEN try_cast({_trim(text)} AS TIME) END"
        case "timestamp":
            return _timestamp(text, rules.timestamp_format)
        case "timestamptz":
            return _timestamptz(text, rules)
        case "uuid":
            return _uuid(text)
        case "fixed":
            return f"list_transform([{_binary(text, rules.binary)}], lambda b: {of_length('b', kind.length)})[1]"
        case _:
            return _binary(text, rules.binary)


def of_length(value: str, length: int) -> str:
    """SQL of a BLOB that has so many bytes; NULL of another."""
    return f"CASE WHEN octet_length({value}) = {length} THEN {value} END"


def in_zone(naive: str, *, timezone: str, dst_overlap: str) -> str:
    """SQL of a TIMESTAMP of `timezone` as an instant: NULL in a gap; in an overlap the later one unless told.

    ICU answers the later instant of an overlap and moves a time out of a gap, so the way back shows a gap.
    """
    zone = quote_text(timezone)
    later = chosen = f"timezone({zone}, wall)"
    exists = f"{within_years('wall', 'TIMESTAMP')} AND timezone({zone}, {later}) = wall"
    if timezone.upper() in _UTC_NAMES:
        chosen, exists = "make_timestamptz(epoch_us(wall))", within_years("wall", "TIMESTAMP")
    elif dst_overlap == "earlier":
        before = f"({later} - INTERVAL 1 DAY)"
        offset = f"(timezone({zone}, {before}) - timezone('UTC', {before}))"
        earlier = f"timezone('UTC', wall - {offset})"
        chosen = f"CASE WHEN timezone({zone}, {earlier}) = wall THEN {earlier} ELSE {later} END"
    # a lambda computes its argument once, and here it stands up to six times
    return f"list_transform([{naive}], lambda wall: CASE WHEN {exists} THEN {chosen} END)[1]"


def within_years(value: str, kind: str) -> str:
    """SQL condition: a DATE, TIMESTAMP or TIMESTAMP WITH TIME ZONE (`kind`) of the years 1 to 9999, so not infinite."""
    first, last = _YEARS
    if kind == "DATE":
        return f"{value} BETWEEN DATE '{first}' AND DATE '{last}'"
    zone = "+00" if kind == "TIMESTAMP WITH TIME ZONE" else ""
    return f"{value} BETWEEN {kind} '{first} 00:00:00{zone}' AND {kind} '{last} 23:59:59.999999{zone}'"


def _trim(text: str) -> str:
    return f"trim({text}, {BLANKS})"


def _matches(text: str, grammar: str) -> str:
    # blanks in the grammar cost nothing, a trim of every value does
    blanks = r"[ \t]*"
    return f"regexp_full_match({text}, {quote_text(blanks + grammar + blanks)})"


def _words(words: tuple[str, ...]) -> str:
    return ", ".join(quote_text(word.lower()) for word in words)


def _boolean(text: str, rules: CastRules) -> str:
    word = f"lower({_trim(text)})"
    return (
        f"CASE WHEN {word} IN ({_words(rules.true_words)}) THEN true "
        f"WHEN {word} IN ({_words(rules.false_words)}) THEN false END"
    )


def _number(kind: ColumnType, text: str) -> str:
    if kind.name in ("int", "long"):
        return _integer(kind.sql, text)
    return _decimal(kind, text) if kind.name == "decimal" else _floating(kind, text)


def _local(text: str, rules: CastRules, number: Callable[[str], str]) -> str:
    """SQL of `number` over the text in the spelling of everywhere; NULL where the text is not in the declared one.

    Groups have three digits, so that `1.23` with points between them is no number at all.
    """
    if rules.decimal == "." and rules.thousands is None:
        return number(text)
    point, digits, spelled = re.escape(rules.decimal), "[0-9]*", text
    if rules.thousands:
        group = re.escape(rules.thousands)
        digits = f"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]*)"
        spelled = f"replace({text}, {quote_text(rules.thousands)}, '')"
    grammar = rf"[+-]?{digits}(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?"
    plain = f"CASE WHEN {_matches(text, grammar)} THEN replace({spelled}, {quote_text(rules.decimal)}, '.') END"
    # a lambda computes its argument once
    return f"list_transform([{plain}], lambda spelled: {number('spelled')})[1]"


def _integer(sql: str, text: str) -> str:
    trimmed = _trim(text)
    digits = rf"regexp_replace({trimmed}, '\.0*$', '')"
    return (
        f"CASE WHEN try_cast({text} AS {sql})::VARCHAR = {text} THEN try_cast({text} AS {sql}) "
        f"WHEN {_matches(text, _INTEGER)} THEN try_cast({digits} AS {sql}) END"
    )


def _decimal(kind: ColumnType, text: str) -> str:
    trimmed, scale = _trim(text), kind.scale
    if scale:
        grammar = rf"[+-]?(?:[0-9]+(?:\.[0-9]{{0,{scale}}}0*)?|\.[0-9]{{1,{scale}}}0*)"
        digits = rf"regexp_replace({trimmed}, '(\.[0-9]{{{scale}}})0+$', '\1')"
    else:
        grammar = _INTEGER
        digits = rf"regexp_replace({trimmed}, '\.0*$', '')"
    return (
        f"CASE WHEN try_cast({text} AS {kind.sql})::VARCHAR = {text} THEN try_cast({text} AS {kind.sql}) "
        f"WHEN {_matches(text, grammar)} THEN try_cast({digits} AS {kind.sql}) END"
    )


def _significant(number: str) -> str:
    """SQL of a number's significant digits; equal digits of a text and of its nearest float mean equal numbers."""
    return f"trim(replace(regexp_extract({number}, '[0-9.]+'), '.', ''), '0')"


def _floating(kind: ColumnType, text: str) -> str:
    """A text of few digits always survives; a longer one must be the shortest form or the full one of its float."""
    trimmed, sql = _trim(text), kind.sql
    value = f"try_cast({trimmed} AS {sql})"
    safe, full = (15, "%.17g") if kind.name == "double" else (6, "%.9g")
    digits = _significant(trimmed)
    printed = _significant(f"{value}::VARCHAR")
    exact = _significant(f"printf('{full}', {value}::DOUBLE)")
    return (
        f"CASE WHEN try_cast({text} AS {sql})::VARCHAR = {text} AND isfinite(try_cast({text} AS {sql})) "
        f"THEN try_cast({text} AS {sql}) "
        f"WHEN length({trimmed}) <= {safe} AND {_matches(text, _PLAIN)} THEN {value} "
        f"WHEN {_matches(text, _SCIENTIFIC)} AND isfinite({value}) AND {digits} IN ({printed}, {exact}) "
        f"THEN {value} END"
    )


def _date(text: str, form: str | None) -> str:
    trimmed = _trim(text)
    if form is not None:
        parsed = f"try_strptime({trimmed}, {quote_text(form)})::TIMESTAMP"
        value = f"({parsed})::DATE"
        whole = f"{value}::TIMESTAMP = {parsed}"
        return f"CASE WHEN {_formatted(trimmed, form, parsed)} AND {whole} THEN {value} END"
    return " ".join(
        [
            "CASE",
            *(
                f"WHEN try_cast({t} AS DATE)::VARCHAR = {t} AND {within_years(f'try_cast({t} AS DATE)', 'DATE')} "
                f"THEN try_cast({t} AS DATE)"
                for t in (text, trimmed)
            ),
            "END",
        ]
    )


def _formatted(text: str, form: str, parsed: str) -> str:
    """SQL condition: the text is what `form` prints, but for leading zeros, letter case and zeros of a fraction.

    strptime reads `20` as year 20 and glued digits as it likes: printing back shows it.
    """

    def bare(printed: str) -> str:
        stripped = rf"lower(regexp_replace({printed}, '(^|[^0-9])0+([0-9])', '\1\2', 'g'))"
        return f"rtrim({stripped}, '0')" if form.endswith("%f") else stripped

    printed = f"strftime({parsed}, {quote_text(form)})"
    similar = f"{bare(printed)} = {bare(text)}"
    if "%Y" in form:
        similar = f"({similar} AND year({parsed}) >= 1000)"
    return f"({printed} = {text} OR {similar}) AND {within_years(parsed, 'TIMESTAMP')}"


def _timestamp(text: str, form: str | None) -> str:
    if form is not None:
        _refuse_zone(form)
        return _timestamp_of_format(_trim(text), form)
    trimmed = _trim(text)
    plain, spelled = f"try_cast({text} AS TIMESTAMP)", f"try_cast({trimmed} AS TIMESTAMP)"
    return (
        f"CASE WHEN {plain}::VARCHAR = {text} AND {within_years(plain, 'TIMESTAMP')} THEN {plain} "
        f"WHEN {_matches(text, _TIMESTAMP)} AND {within_years(spelled, 'TIMESTAMP')} THEN {spelled} END"
    )


def _timestamp_of_format(trimmed: str, form: str) -> str:
    parsed = f"try_strptime({trimmed}, {quote_text(form)})::TIMESTAMP"
    return f"CASE WHEN {_formatted(trimmed, form, parsed)} THEN {parsed} END"


def _timestamptz(text: str, rules: CastRules) -> str:
    form = rules.timestamp_format
    if form is not None and form.endswith("%z"):
        return _timestamptz_of_format(_trim(text), form.removesuffix("%z"))
    if form is not None:
        return in_zone(_timestamp(text, form), timezone=rules.timezone, dst_overlap=rules.dst_overlap)
    instant = f"try_cast({text} AS TIMESTAMP WITH TIME ZONE)"
    # the grammar leaves blanks at the ends alone, and of those the cast knows no tab
    wall = f"try_cast(replace({text}, chr(9), ' ') AS TIMESTAMP)"
    local = in_zone(wall, timezone=rules.timezone, dst_overlap=rules.dst_overlap)
    # what stands first in the first condition is computed once, however often it occurs
    return (
        f"CASE WHEN {within_years(instant, 'TIMESTAMP WITH TIME ZONE')} AND {_matches(text, _TIMESTAMP + _OFFSET)} "
        f"THEN {instant} WHEN {_matches(text, _TIMESTAMP)} THEN {local} END"
    )


def _timestamptz_of_format(trimmed: str, form: str) -> str:
    """A format that ends in an offset: the local part by the format, the offset by the grammar."""
    _refuse_zone(form)
    local = f"regexp_replace({trimmed}, {quote_text(_OFFSET + '$')}, '')"
    offset = f"regexp_extract({trimmed}, {quote_text(_OFFSET + '$')})"
    naive = _timestamp_of_format(local, form)
    instant = f"try_cast(({naive})::VARCHAR || nullif({offset}, '') AS TIMESTAMP WITH TIME ZONE)"
    return f"CASE WHEN {within_years(instant, 'TIMESTAMP WITH TIME ZONE')} THEN {instant} END"


def _refuse_zone(form: str) -> None:
    if "%z" in form or "%Z" in form:
        raise NotAvailable(f"a zone in a format is not available yet but as a last %z of a timestamptz: format={form}")


def _uuid(text: str) -> str:
    trimmed = _trim(text)
    return (
        f"CASE WHEN try_cast({text} AS UUID)::VARCHAR = {text} THEN try_cast({text} AS UUID) "
        f"WHEN {_matches(text, _UUID)} THEN try_cast({trimmed} AS UUID) END"
    )


def _binary(text: str, spelling: str) -> str:
    trimmed = _trim(text)
    if spelling == "hex":
        return f"CASE WHEN {_matches(text, _HEX)} THEN unhex({trimmed}) END"
    value = f"TRY(from_base64({trimmed}))"
    return f"CASE WHEN to_base64({value}) = {trimmed} THEN {value} END"
