"""Whether S3 lets us do what a load does with landing objects and with the state. Reads nothing whole, and writes
nothing but probes of its own, which it removes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import TypeVar

from lakehouse import naming
from lakehouse.doctor.check import Check, missing, ok, skipped, warning
from lakehouse.doctor.grants import DELETE, GET, LIST, PUT, on_objects
from lakehouse.errors import LakehouseError, ObjectChanged, RetryLater, UnreadableObject
from lakehouse.model import LandingObject
from lakehouse.storage import Storage
from lakehouse.storage.failures import FOREIGN, Failure, Meaning, failure_of

LOOKED_AT = 1000
"""So many objects of a source are looked at for one that can be read: a page."""
MOST_SKEW = 60.0
"""Seconds between our clock and the storage's. S3 refuses 900; leases of other machines are judged by 45."""
_ELSEWHERE = (Meaning.BUCKET, Meaning.REGION, Meaning.CLOCK, Meaning.ENDPOINT, Meaning.EXPIRED, Meaning.CREDENTIALS)
"""What every further request to the same bucket would meet, too."""
_WORDS = {
    Meaning.DENIED: "not allowed",
    Meaning.EXPIRED: "the credentials have expired",
    Meaning.CREDENTIALS: "the storage does not know these credentials",
    Meaning.BUCKET: "the bucket does not exist",
    Meaning.CLOCK: "this machine's clock differs too much from the storage's",
    Meaning.ENDPOINT: "the endpoint is no http or https address",
    Meaning.UNAVAILABLE: "the storage does not answer or is overloaded",
    Meaning.REGION: "the bucket is in another region",
}

_Value = TypeVar("_Value")


class _Unlookable(Exception):
    """Nothing more can be found out at this place: why, and the check that found it."""

    def __init__(self, why: str, found: Check) -> None:
        super().__init__(why)
        self.why = why
        self.found = found


def check_source(storage: Storage, *, uri: str, region: str, new_id: str) -> Iterator[Check]:
    """List a source's folder, and read the beginning of one of its objects."""
    place = _Place(storage, uri, region)
    try:
        found, refused = place.attempt("source list", LIST, lambda: _first_page(storage))
        yield refused or ok("source list", uri, _seen(found or []))
        yield from _read_one(place, found, new_id)
    except _Unlookable as reason:
        yield reason.found
        if reason.found.name == "source list":
            yield skipped("source read", uri, reason.why)


def check_state(storage: Storage, *, region: str, new_id: str, now: Callable[[], datetime]) -> Iterator[Check]:
    """Write a probe under the conditions that leases and manifests need, read, list and remove it."""
    uri = storage.uri("")
    place = _Place(storage, uri, region)
    names = ["state list", "state create", "state read", "state conditions", "clock", "state delete"]
    key = naming.doctor_probe(new_id)
    try:
        # First, because some storages make a bucket that is missing when something is written to it.
        _, refused = place.attempt("state list", LIST, lambda: [*storage.list(key)])
        yield refused or ok("state list", uri)
        asked_at = now()
        made, refused = place.attempt("state create", PUT, lambda: storage.create(key, b"1"))
        yield refused or ok("state create", uri)
        if not made:
            for name in names[2:]:
                yield skipped(name, uri, "no probe could be written")
            return
        yield from _check_probe(place, key, asked_at=asked_at)
    except _Unlookable as reason:
        yield reason.found
        for name in names[names.index(reason.found.name) + 1 :]:
            yield skipped(name, uri, reason.why)


def _check_probe(place: _Place, key: str, *, asked_at: datetime) -> Iterator[Check]:
    storage, uri = place.storage, place.uri
    read, refused = place.attempt("state read", GET, lambda: storage.read_with_etag(key))
    yield refused or ok("state read", uri)
    if read is not None:
        yield _conditions(place, key, read[1])
    else:
        yield skipped("state conditions", uri, "the probe could not be read")
    listed, refused = place.attempt("clock", LIST, lambda: [*storage.list(key)])
    yield _clock(uri, listed, asked_at)
    _, refused = place.attempt("state delete", DELETE, lambda: storage.delete(key))
    yield refused or ok("state delete", uri)
    if refused:
        yield warning("state probe", storage.uri(key), "it stays there, and nothing reads it")


def _conditions(place: _Place, key: str, etag: str) -> Check:
    """Whether writes that must fail do fail: leases and manifests rely on it."""
    storage, uri, name = place.storage, place.uri, "state conditions"

    def try_both() -> list[str]:
        ignored = ["If-None-Match"] if storage.create(key, b"2") else []
        if storage.replace(key, b"3", '"0123456789abcdef0123456789abcdef"') is not None:
            ignored.append("If-Match")
        if not ignored and storage.replace(key, b"4", etag) is None:
            ignored.append("If-Match with the ETag that it gave")
        return ignored

    ignored, refused = place.attempt(name, PUT, try_both)
    if ignored:
        return missing(
            name,
            uri,
            f"the storage does not keep {' and '.join(ignored)}: two loads could hold one lease",
            next="point LAKEHOUSE_STATE to a bucket of a storage with conditional writes",
        )
    return refused or ok(name, uri, "If-None-Match and If-Match are kept")


def _clock(uri: str, listed: list[LandingObject] | None, asked_at: datetime) -> Check:
    """The storage's clock by the time that it gave the probe, which was written right after `asked_at`."""
    if not listed:
        return skipped("clock", uri, "the probe could not be listed")
    skew = (listed[0].last_modified - asked_at).total_seconds()
    text = f"the storage's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} ours"
    if abs(skew) > MOST_SKEW:
        return missing("clock", uri, text, next="timedatectl set-ntp true")
    return ok("clock", uri, text)


def _read_one(place: _Place, found: list[LandingObject] | None, new_id: str) -> Iterator[Check]:
    storage, name = place.storage, "source read"
    obj = next((one for one in found or [] if one.size), None)
    if obj is None:
        _, refused = place.attempt(name, GET, lambda: storage.read(f"lakehouse-doctor-{new_id}"))
        if refused and refused.grant:
            # S3 tells only who may list the whole bucket that a key is not there; others are refused.
            text = "cannot be told before there is an object: a key that is not there is refused"
            yield warning(name, place.uri, text, grant=refused.grant, next="lakehouse doctor once an object has landed")
        else:
            yield refused or ok(name, place.uri, "asked for a key that is not there: no object has bytes yet")
        return
    try:
        _, refused = place.attempt(name, GET, lambda: storage.fetch_beginning(obj))
        yield refused or ok(name, obj.uri)
    except UnreadableObject as error:
        yield ok(name, obj.uri, f"allowed; {error.message}")
    except ObjectChanged:
        yield ok(name, obj.uri, "allowed; it was overwritten meanwhile")


class _Place:
    """One bucket or folder that is asked one thing after another."""

    def __init__(self, storage: Storage, uri: str, region: str) -> None:
        self.storage = storage
        self.uri = uri
        self._region = region

    def attempt(self, name: str, action: str, act: Callable[[], _Value]) -> tuple[_Value | None, Check | None]:
        """The answer, or the check that says what is missing. Raises _Unlookable where no other request would fare
        better."""
        try:
            return act(), None
        except (ObjectChanged, UnreadableObject):
            raise
        except LakehouseError as error:
            cause = error.__cause__
            failure = failure_of(cause) if isinstance(cause, FOREIGN) else None
            found = self._refused(name, action, error, failure)
            if failure is not None and (failure.meaning in _ELSEWHERE or failure.meaning is Meaning.UNAVAILABLE):
                raise _Unlookable(_WORDS[failure.meaning], found) from None
            return None, found

    def _refused(self, name: str, action: str, error: LakehouseError, failure: Failure | None) -> Check:
        code = 3 if isinstance(error, RetryLater) else 2
        if failure is None or failure.meaning not in _WORDS:
            return missing(name, self.uri, error.message, next=error.next, exit_code=code)
        told = "".join(
            f" {n}={v}"
            for n, v in (("status", failure.status), ("code", failure.code), ("region", failure.region))
            if v
        )
        return missing(
            name,
            self.uri,
            _WORDS[failure.meaning] + (f":{told}" if told else ""),
            grant=self._grant(action) if failure.meaning is Meaning.DENIED else "",
            next=_next(failure, self.uri),
            exit_code=code,
        )

    def _grant(self, action: str) -> str:
        grant = on_objects(action, self.uri, region=self._region)
        if action in (GET, PUT) and grant:
            needed = "kms:Decrypt" if action == GET else "kms:GenerateDataKey and kms:Decrypt"
            grant += f"; if the bucket has a KMS key of its own, {needed} on that key"
        return grant


def _next(failure: Failure, uri: str) -> str:
    bucket = uri.removeprefix("s3://").partition("/")[0]
    match failure.meaning:
        case Meaning.DENIED:
            return "aws iam put-role-policy with what is to grant, then lakehouse doctor"
        case Meaning.EXPIRED:
            return "aws sso login, or export a new AWS_SESSION_TOKEN with its keys"
        case Meaning.CREDENTIALS:
            return "aws sts get-caller-identity"
        case Meaning.BUCKET:
            return f"aws s3 mb s3://{bucket}, or correct the address"
        case Meaning.REGION:
            return f"export AWS_REGION={failure.region or '<region of the bucket>'}"
        case Meaning.CLOCK:
            return "timedatectl set-ntp true"
        case Meaning.ENDPOINT | Meaning.UNAVAILABLE:
            return "check AWS_ENDPOINT_URL_S3, the network and the proxy, then lakehouse doctor"
    return "lakehouse doctor"


def _first_page(storage: Storage) -> list[LandingObject]:
    return list(islice(storage.list(""), LOOKED_AT))


def _seen(objects: list[LandingObject]) -> str:
    if len(objects) == LOOKED_AT:
        return f"{LOOKED_AT} objects or more"
    return f"{len(objects)} object{'' if len(objects) == 1 else 's'}" if objects else "no object yet"
