"""Keeps secrets out of what is said: messages, logs, receipts, metadata, tracebacks.

What must not be said is known in two ways. By value: whoever reads a secret, from the environment, a catalog's
configuration or a credential chain, has it remembered here, and it is masked wherever it turns up, also in what a
service echoes. By form: passwords in addresses, signatures of presigned URLs, bearer tokens. Every error of ours passes
here when it is made, every foreign one before it leaves the command line or a Dagster body.

What is remembered is the one thing that this process keeps for itself: an error is made far from where its secrets
were read. Does no I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote, urlsplit

MASK = "***"
SHORTEST = 6
"""Shorter values are no secrets worth the name, and masking them would make other words unreadable."""

_SECRET_WORDS = r"secret|token|passw|credential|authorization|private[-_.]?key|api[-_.]?key|account[-_.]?key|signature"
_SECRET_NAME = re.compile(_SECRET_WORDS, re.IGNORECASE)
_NO_SECRET_NAME = re.compile(
    r"(file|path|dir|uri|url|endpoint|host|port|arn|name|id|type|mode|expir\w*|enabled|scope|server|issuer|provider)$",
    re.IGNORECASE,
)
_FORMS = (
    (re.compile(r"(?<=://)([^\s/:@'\"]*):[^\s/'\"]*@"), rf"\1:{MASK}@"),
    (
        re.compile(
            r"((?:X-Amz-(?:Signature|Credential|Security-Token)|(?<![\w-])Signature|AWSAccessKeyId"
            r"|access_token|client_secret|password)=)[^&\s'\"]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(rf"([?&][\w.-]*(?:{_SECRET_WORDS})[\w.-]*=)[^&\s'\"]+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"\b(Bearer|Basic) +[\w.~+/=-]{16,}"), rf"\1 {MASK}"),
    (re.compile(r"(x-amz-security-token: ?)[^\s'\"]+", re.IGNORECASE), rf"\1{MASK}"),
)

_ADDRESS_NAME = re.compile(r"uri|url|endpoint|host|proxy|dsn|address", re.IGNORECASE)
_NO_SCHEME = re.compile(r"[^\s/:@]+:(.+)@[^@]+$")

_OWN_WORDS = frozenset({"lakehouse"})
"""Our own name as somebody's password: masking it would make every command that we advise unreadable."""
MOST = 256
"""So many secrets are kept, the newest: a process that lives for months gets new session tokens all the time."""

_remembered: dict[str, None] = {}
"""In order; each use of it is one operation, so that threads lose none."""


def remember(secrets: Iterable[str]) -> None:
    """Mask these values from now on, also where they are quoted for an address, JSON or Python."""
    for secret in secrets:
        if len(secret) >= SHORTEST and secret not in _OWN_WORDS:
            _remembered.setdefault(secret)
    for oldest in list(_remembered)[:-MOST]:
        _remembered.pop(oldest, None)


def secrets_in(values: Mapping[str, object]) -> Iterator[str]:
    """The values of variables or properties that hold a secret, by their names; and passwords in addresses."""
    for name, value in values.items():
        if not isinstance(value, str):
            continue
        if _SECRET_NAME.search(name) and not _NO_SECRET_NAME.search(name):
            yield value
            yield value.partition(":")[2]  # an OAuth credential is `client:secret`
        for found in _in_address(name, value):
            yield found
            yield unquote(found)


def redacted(text: str) -> str:
    """The text with every secret masked. Mask before a text is cut: half a secret is not known."""
    for secret in _written(tuple(_remembered)):
        if secret in text:
            text = text.replace(secret, MASK)
    for form, masked in _FORMS:
        text = form.sub(masked, text)
    return text


class Redacted(Exception):
    """Stands for a foreign error whose text held a secret."""


def cleaned(error: BaseException) -> BaseException:
    """The error, or one that stands for it, so that no traceback of it shows a secret, its causes included."""
    return _cleaned(error, set())


def _cleaned(error: BaseException, passed: set[int]) -> BaseException:
    passed.add(id(error))
    texts = [str(error), *getattr(error, "__notes__", ())]
    if isinstance(error, BaseExceptionGroup):
        texts += [repr(inner) for inner in error.exceptions]
    clean = error
    if any(redacted(text) != text for text in texts):
        clean = Redacted(redacted(" ".join([f"{type(error).__module__}.{type(error).__qualname__}:", *texts])))
        clean.__traceback__ = error.__traceback__
        clean.__suppress_context__ = error.__suppress_context__
    cause, context = error.__cause__, error.__context__
    hidden = error.__suppress_context__
    if cause is not None and id(cause) not in passed:
        clean.__cause__ = _cleaned(cause, passed)
    if context is not None and context is not cause:
        clean.__context__ = _cleaned(context, passed) if id(context) not in passed else None
    clean.__suppress_context__ = hidden
    return clean


@lru_cache(maxsize=1)
def _written(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Every form in which they may be written, the longest first."""
    forms = {
        form
        for secret in secrets
        for form in (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1])
    }
    return tuple(sorted(forms, key=len, reverse=True))


def _in_address(name: str, value: str) -> Iterator[str]:
    """The password of an address, also of one whose scheme was forgotten, and its parameters that hold a secret."""
    if "://" not in value:
        if _ADDRESS_NAME.search(name) and (found := _NO_SCHEME.match(value)):
            yield found[1]
        return
    for parameter in value.partition("?")[2].partition("#")[0].split("&"):
        key, _, secret = parameter.partition("=")
        if _SECRET_NAME.search(key) and not _NO_SECRET_NAME.search(key):
            yield secret
    with suppress(ValueError):  # its form is masked all the same
        yield urlsplit(value).password or ""
