"""What storage's errors mean: the only place that reads exceptions of obstore and botocore.

Decides by HTTP status and S3 error code, because the exception classes differ between operations of one library (bad
credentials and a missing bucket both come as obstore's GenericError). Our messages are built from status, code and
address alone: never from an answer's text, which can hold access keys. Never does I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from xml.etree.ElementTree import ParseError

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError
from obstore.exceptions import BaseError, UnauthenticatedError

from lakehouse.errors import ConfigurationError, LakehouseError, Unavailable, UnreadableObject

FOREIGN = (BaseError, FileNotFoundError, BotoCoreError, ClientError, ResponseParserError, ParseError)
"""What obstore and botocore raise. FileNotFoundError is obstore's 404: never catch it around local file access."""

_NETWORK = (
    HTTPClientError,
    BotoConnectionError,
    IncompleteReadError,
    ResponseStreamingError,
    ResponseParserError,
    ParseError,
)
_STATUS = re.compile(r"status code: (\d{3})\b")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_REGION = re.compile(r"<Region>([a-z0-9-]{1,32})</Region>")
_TRANSIENT_CODES = {"SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "OperationAborted"}
_EXPIRED_CODES = {"ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException", "RequestExpired"}
_WRONG_KEY_CODES = {"InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity", "NotSignedUp"}
_REGION_CODES = {"PermanentRedirect", "AuthorizationHeaderMalformed", "TemporaryRedirect", "IllegalLocationConstraint"}


class Meaning(StrEnum):
    """What a failure means for the caller."""

    MISSING = "missing"
    LOST = "lost"
    """A precondition did not hold (412)."""
    CONTENDED = "contended"
    """Another conditional write was under way (409): nothing is known about the outcome."""
    UNAVAILABLE = "unavailable"
    CREDENTIALS = "credentials"
    """The storage does not know who we are."""
    EXPIRED = "expired"
    DENIED = "denied"
    """The storage knows who we are, and does not allow it; or does not say why (a 403 without a code)."""
    BUCKET = "bucket"
    REGION = "region"
    CLOCK = "clock"
    ARCHIVED = "archived"
    ENDPOINT = "endpoint"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request: its meaning, and the status and S3 code that say so where an answer came.

    `region` is where the bucket is, if the answer names it.
    """

    meaning: Meaning
    status: int | None = None
    code: str = ""
    region: str = ""


def failure_of(error: Exception) -> Failure:
    """Read a foreign exception. Anything that carries no status is taken for a service that does not answer."""
    if isinstance(error, ClientError):
        answer, told = error.response.get("ResponseMetadata", {}), error.response.get("Error", {})
        region = answer.get("HTTPHeaders", {}).get("x-amz-bucket-region") or told.get("Region", "")
        return _by_status(answer.get("HTTPStatusCode"), str(told.get("Code", "")), str(region))
    if isinstance(error, _NETWORK):
        return Failure(Meaning.UNAVAILABLE)
    if isinstance(error, BotoCoreError):  # what is left of botocore: no credentials, an unknown profile, a stale login
        return Failure(Meaning.CREDENTIALS, code=type(error).__name__)
    text = str(error)
    if found := _STATUS.search(text):
        code, region = _CODE.search(text), _REGION.search(text)
        return _by_status(int(found[1]), code[1] if code else "", region[1] if region else "")
    if isinstance(error, UnauthenticatedError):
        return Failure(Meaning.CREDENTIALS)
    if "redirect without LOCATION" in text:
        return Failure(Meaning.REGION)
    if "builder error" in text:
        return Failure(Meaning.ENDPOINT)
    return Failure(Meaning.MISSING if isinstance(error, FileNotFoundError) else Meaning.UNAVAILABLE)


def _by_status(status: int | None, code: str, region: str) -> Failure:
    return Failure(_meaning(status or 0, code), status, code, region)


def _meaning(status: int, code: str) -> Meaning:
    if code == "NoSuchBucket":
        return Meaning.BUCKET
    if code in _REGION_CODES or 300 <= status < 400:
        return Meaning.REGION
    if code == "InvalidObjectState":
        return Meaning.ARCHIVED
    if code == "RequestTimeTooSkewed":
        return Meaning.CLOCK
    if status == 409:
        return Meaning.CONTENDED
    if status >= 500 or status in (408, 429) or code in _TRANSIENT_CODES:
        return Meaning.UNAVAILABLE
    if code in _EXPIRED_CODES:
        return Meaning.EXPIRED
    if status == 401 or code in _WRONG_KEY_CODES:
        return Meaning.CREDENTIALS
    if status == 403:
        return Meaning.DENIED
    return {404: Meaning.MISSING, 412: Meaning.LOST}.get(status, Meaning.REFUSED)


def explain(failure: Failure, *, action: str, uri: str, endpoint: str) -> LakehouseError:
    """Our error for a failure that the caller cannot handle itself. `action` is a verb, as in `cannot list`."""
    answer = "".join(
        f" {name}={value}" for name, value in (("status", failure.status), ("code", failure.code)) if value
    )
    where = f"uri={uri} endpoint={endpoint}{answer}"
    match failure.meaning:
        case Meaning.UNAVAILABLE | Meaning.CONTENDED:
            return Unavailable(f"cannot {action}: storage does not answer or is overloaded: {where}")
        case Meaning.CREDENTIALS:
            return ConfigurationError(f"cannot {action}: storage refuses our credentials: {where}")
        case Meaning.EXPIRED:
            return ConfigurationError(f"cannot {action}: our credentials have expired: {where}")
        case Meaning.DENIED:
            return ConfigurationError(
                f"cannot {action}: storage does not allow it to our credentials: {where}", next="lakehouse doctor"
            )
        case Meaning.BUCKET:
            bucket = uri.removeprefix("s3://").partition("/")[0]
            return ConfigurationError(f"cannot {action}: the bucket does not exist: bucket={bucket} {where}")
        case Meaning.REGION:
            region = f"={failure.region}" if failure.region else ""
            return ConfigurationError(
                f"cannot {action}: the bucket is in another region, set AWS_REGION{region}: {where}"
            )
        case Meaning.CLOCK:
            return ConfigurationError(f"cannot {action}: this machine's clock differs from the storage's: {where}")
        case Meaning.ARCHIVED:
            return UnreadableObject(f"unreadable: archived, it has to be restored first: {where}")
        case Meaning.ENDPOINT:
            return ConfigurationError(f"cannot {action}: the endpoint is no http or https address: {where}")
        case Meaning.MISSING:
            return ConfigurationError(f"cannot {action}: nothing is there, check bucket and endpoint: {where}")
        case Meaning.LOST | Meaning.REFUSED:
            return ConfigurationError(f"cannot {action}: storage refuses the request: {where}")
