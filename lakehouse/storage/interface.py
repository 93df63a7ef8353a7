"""What every storage offers. Never talks to a service itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from lakehouse.model import LandingObject

Contents: TypeAlias = list[bytes | None]
"""Inside a class with a method `list`, annotations cannot name the builtin."""


class Storage(Protocol):
    """One bucket, or a folder of one; keys are relative to its root and raw: never URL-encoded or decoded.

    Every method raises ConfigurationError for refused credentials, a missing bucket or a wrong region, and
    Unavailable when the service does not answer or answers 5xx or 429.
    """

    def uri(self, key: str) -> str:
        """The full address of a key; `uri("")` is the root and ends with "/"."""

    def key(self, uri: str) -> str:
        """The key of a full address; one outside this storage raises ConfigurationError."""

    def list(self, prefix: str) -> Iterator[LandingObject]:
        """Every object whose key starts with `prefix`, a plain string. Complete, or raises: never a short listing."""

    def fetch(self, obj: LandingObject, target: Path) -> None:
        """Copy exactly the listed version to a local file.

        Raises ObjectChanged if it was overwritten or deleted since, and UnreadableObject if it is archived or its key
        cannot be sent over HTTP.
        """

    def fetch_bytes(self, obj: LandingObject) -> bytes:
        """The bytes of exactly the listed version; raises as `fetch` does."""

    def fetch_beginning(self, obj: LandingObject) -> bytes:
        """A few first bytes of exactly the listed version, which shows that it may be read; raises as `fetch` does."""

    def read(self, key: str) -> bytes | None:
        """The object's bytes, None if there is none."""

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        """The object's bytes and ETag, None if there is none."""

    def read_many(self, keys: Sequence[str]) -> Contents:
        """As `read`, for several keys at once, in their order."""

    def create(self, key: str, data: bytes) -> bool:
        """Write the object unless it exists; False if it does. Two writers of one key have exactly one True."""

    def replace(self, key: str, data: bytes, etag: str) -> str | None:
        """Write over exactly that version; the new ETag, or None if the object has another one or is gone."""

    def put(self, key: str, data: bytes) -> None:
        """Write the object, whatever is there."""

    def upload(self, path: Path, key: str) -> None:
        """Write the object from a local file, in pieces: it is never held in memory whole."""

    def delete(self, key: str) -> None:
        """Delete the object; one that is not there is no error."""
