"""Text for people's eyes: what would move the cursor, end a line or turn the writing around is shown as an escape.

Names of objects and values of files come from others. Printed as they are, a line end in one could forge a line of
ours, such as the next command, and an escape sequence could clear the screen. Pure.
"""

from __future__ import annotations

import re

_CONTROL = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""C0, DEL, C1, the line and paragraph separators, and what changes the direction of writing."""
_ANY = re.compile(f"[{_CONTROL}]")
_PIECES = re.compile(rf""""[^"]*"|'(?P<quoted>[^']*)'|[{_CONTROL}]""")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def readable(text: str) -> str:
    r"""The text in one line. What a shell would take in single quotes becomes `$'…'`, so that a command that names such
    an object can still be copied into bash: `'a\nb'` with a line end in it is shown as `$'a\nb'`."""
    if not _ANY.search(text):
        return text
    return _PIECES.sub(_piece, text)


def _piece(found: re.Match[str]) -> str:
    quoted = found["quoted"]
    if quoted is None or not _ANY.search(quoted):
        return _escaped(found[0])
    return "$'" + _escaped(quoted.replace("\\", "\\\\")) + "'"


def _escaped(text: str) -> str:
    return _ANY.sub(lambda found: _SHORT.get(found[0]) or _code(ord(found[0])), text)


def _code(letter: int) -> str:
    # bash takes \x85 for a byte, and \u0085 for the letter
    return f"\\x{letter:02x}" if letter < 0x80 else f"\\u{letter:04x}"
