"""One S3 bucket. obstore carries the bytes, boto3 lists; every failure is explained by `failures`.

Conditional writes are sent by a client that never retries by itself: after an unclear answer what is there is read
back, so that a write of ours that landed unseen is not taken for somebody else's. Never decides what is stored where.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from botocore.config import Config
from obstore.store import S3Store

from lakehouse.errors import ConfigurationError, LakehouseError, ObjectChanged, Unavailable, UnreadableObject
from lakehouse.model import LandingObject
from lakehouse.storage.credentials import SESSION_LOCK, Access, find_access, without_password
from lakehouse.storage.failures import FOREIGN, Meaning, explain, failure_of
from lakehouse.storage.interface import Contents
from lakehouse.storage.listing import keep_bodies, list_pages
from lakehouse.storage.patience import Patience

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from obstore import GetOptions, PutMode, PutResult
    from typing_extensions import Buffer

_PARALLEL = 16
_CHUNK = 8 << 20
_RECEIVED = 8 << 20
_SPAN = 64 << 20
_SPANS = 4
"""An object of several spans of this many bytes comes over several connections: one alone is slow, small ones are
many anyhow."""
_UNCLEAR = (Meaning.UNAVAILABLE, Meaning.CONTENDED)
_NO_LIMIT = timedelta(days=1)
_LONGEST_BACKOFF = timedelta(seconds=3)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def open_bucket(bucket: str, folder: str, *, env: Mapping[str, str], patience: Patience) -> S3Storage:
    """Open a bucket below a key prefix, which is empty or ends with "/". Sends no request to S3."""
    return S3Storage(bucket, folder, find_access(env, subject=f"s3://{bucket}/{folder}"), patience)


@dataclass(frozen=True)
class S3Storage:
    """`lakehouse.storage.Storage` on S3."""

    bucket: str
    folder: str
    access: Access
    patience: Patience

    def uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{self.folder}{key}"

    def key(self, uri: str) -> str:
        if not uri.startswith(self.uri("")):
            raise ConfigurationError(f"the address lies outside this storage: uri={uri} storage={self.uri('')}")
        return uri[len(self.uri("")) :]

    def list(self, prefix: str) -> Iterator[LandingObject]:
        try:
            for page in list_pages(self._client, self.bucket, self.folder + prefix):
                yield from page.objects
        except FOREIGN as error:
            raise self._explained(error, "list", prefix) from error

    def fetch(self, obj: LandingObject, target: Path) -> None:
        with self._listed(obj):
            written = self._copy_all(obj, target)
        _check_length(obj, written)

    def fetch_bytes(self, obj: LandingObject) -> bytes:
        key = self.folder + self.key(obj.uri)
        with self._listed(obj):
            if _is_path(key):
                data = obstore.get(self._carrier, key, options={"if_match": obj.etag}).bytes().to_bytes()
            else:
                data = b"".join(self._chunks(key, obj.etag, None))
        _check_length(obj, len(data))
        return data

    def fetch_beginning(self, obj: LandingObject) -> bytes:
        key = self.folder + self.key(obj.uri)
        with self._listed(obj), closing(self._chunks(key, obj.etag, (0, 1))) as chunks:
            return bytes(next(chunks, b""))

    @contextmanager
    def _listed(self, obj: LandingObject) -> Iterator[None]:
        """What fails in here is explained as a failure to read the listed version."""
        try:
            yield
        except FOREIGN as error:
            failure = failure_of(error)
            if failure.meaning in (Meaning.MISSING, Meaning.LOST):
                change = "overwritten" if failure.meaning is Meaning.LOST else "deleted"
                raise ObjectChanged(
                    f"the object was {change} since it was listed: uri={obj.uri}", uri=obj.uri
                ) from error
            raise self._explained(error, "read", self.key(obj.uri)) from error

    def read(self, key: str) -> bytes | None:
        found = self.read_with_etag(key)
        return found[0] if found else None

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        try:
            answer = obstore.get(self._reader, self._path(key))
            data = answer.bytes().to_bytes()
        except FOREIGN as error:
            if failure_of(error).meaning is Meaning.MISSING:
                return None
            raise self._explained(error, "read", key) from error
        return data, answer.meta["e_tag"] or ""

    def read_many(self, keys: Sequence[str]) -> Contents:
        with ThreadPoolExecutor(_PARALLEL) as pool:
            return [*pool.map(self.read, keys)]

    def create(self, key: str, data: bytes) -> bool:
        return self._write_once(key, data, mode="create") is not None

    def replace(self, key: str, data: bytes, etag: str) -> str | None:
        return self._write_once(key, data, mode={"e_tag": etag})

    def put(self, key: str, data: bytes) -> None:
        try:
            obstore.put(self._reader, self._path(key), data, use_multipart=False)
        except FOREIGN as error:
            raise self._explained(error, "write", key) from error

    def upload(self, path: Path, key: str) -> None:
        with path.open("rb") as file:
            try:
                obstore.put(self._carrier, self._path(key), file, chunk_size=_CHUNK, max_concurrency=4)
            except FOREIGN as error:
                raise self._explained(error, "write", key) from error

    def delete(self, key: str) -> None:
        try:
            obstore.delete(self._reader, self._path(key))
        except FOREIGN as error:
            if failure_of(error).meaning is not Meaning.MISSING:
                raise self._explained(error, "delete", key) from error

    def _write_once(self, key: str, data: bytes, *, mode: PutMode) -> str | None:
        """Write under a condition: the new ETag, or None if it does not hold and what is there is not ours."""
        started, unclear = time.monotonic(), 0
        while True:
            try:
                return _etag(obstore.put(self._writer, self._path(key), data, mode=mode, use_multipart=False))
            except FOREIGN as error:
                failure = failure_of(error)
                if failure.meaning is Meaning.LOST or (failure.meaning is Meaning.MISSING and mode != "create"):
                    return self._landed(key, data) if unclear else None
                waited = time.monotonic() - started
                if (
                    failure.meaning not in _UNCLEAR
                    or unclear >= self.patience.retries
                    or waited > self.patience.give_up
                ):
                    raise self._explained(error, "write", key) from error
                time.sleep(self.patience.backoff * 2**unclear)
                unclear += 1

    def _landed(self, key: str, data: bytes) -> str | None:
        """The ETag of what is there, if it is what we wrote."""
        found = self.read_with_etag(key)
        return found[1] if found and found[0] == data else None

    def _copy_all(self, obj: LandingObject, target: Path) -> int:
        spans = _spans(obj.size)
        if len(spans) < 2 or not _is_path(self.folder + self.key(obj.uri)):
            return self._copy(obj, target, None)
        target.write_bytes(b"")
        with ThreadPoolExecutor(len(spans)) as pool:
            return sum(pool.map(lambda span: self._copy(obj, target, span), spans))

    def _copy(self, obj: LandingObject, target: Path, span: tuple[int, int] | None) -> int:
        """Copy the bytes of a span to their place in the file that is there, all of them to a new file without one;
        says how many came."""
        with target.open("r+b" if span else "wb", buffering=0) as file:
            first = file.seek(span[0]) if span else 0
            for chunk in self._chunks(self.folder + self.key(obj.uri), obj.etag, span):
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]
            return file.tell() - first

    def _chunks(self, key: str, etag: str, span: tuple[int, int] | None) -> Generator[Buffer, None, None]:
        """The bytes of one version. obstore's paths cannot hold every key: the rest goes through boto3."""
        if _is_path(key):
            options: GetOptions = {"if_match": etag, "range": span} if span else {"if_match": etag}
            yield from obstore.get(self._carrier, key, options=options).stream(min_chunk_size=_RECEIVED)
            return
        if {".", ".."} & set(key.split("/")):
            raise UnreadableObject(
                f"http clients fold '.' and '..' in a key, so the object cannot be read: uri=s3://{self.bucket}/{key}"
            )
        with closing(self._client.get_object(Bucket=self.bucket, Key=key, IfMatch=etag)["Body"]) as body:
            yield from body.iter_chunks(_CHUNK)

    def _path(self, key: str) -> str:
        if not _is_path(self.folder + key):
            raise ConfigurationError(f"the address has empty, '.' or '..' folders: uri={self.uri(key)}")
        return self.folder + key

    def _explained(self, error: Exception, action: str, key: str) -> LakehouseError:
        return explain(failure_of(error), action=action, uri=self.uri(key), endpoint=without_password(self._endpoint))

    @cached_property
    def _endpoint(self) -> str:
        """Where both clients go. Without one in the environment, boto3 knows: profile, region, FIPS, China."""
        return self.access.endpoint or self._client.meta.endpoint_url

    @cached_property
    def _reader(self) -> S3Store:
        """For small answers, retried."""
        return self._store(quiet=self.patience.answer, retries=self.patience.retries)

    @cached_property
    def _writer(self) -> S3Store:
        """For conditional writes, sent once."""
        return self._store(quiet=self.patience.answer, retries=0)

    @cached_property
    def _carrier(self) -> S3Store:
        """For large bodies, whose next byte may take longer."""
        return self._store(quiet=self.patience.body, retries=self.patience.retries)

    def _store(self, *, quiet: float, retries: int) -> S3Store:
        return S3Store(
            self.bucket,
            config={"region": self.access.region, "endpoint": self._endpoint, "disable_bulk_delete": True},
            client_options={
                "allow_http": self._endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=self.patience.connect),
                "read_timeout": timedelta(seconds=quiet),
                "timeout": _NO_LIMIT,
            },
            retry_config={
                "max_retries": retries,
                "retry_timeout": timedelta(seconds=self.patience.give_up),
                "backoff": {"init_backoff": timedelta(seconds=self.patience.backoff), "max_backoff": _LONGEST_BACKOFF},
            },
            credential_provider=self.access.provider,
        )

    @property
    def _client(self) -> S3Client:
        with SESSION_LOCK:
            return self._only_client

    @cached_property
    def _only_client(self) -> S3Client:
        client = self.access.session.client(
            "s3",
            region_name=self.access.region,
            endpoint_url=self.access.endpoint,
            config=Config(
                connect_timeout=self.patience.connect,
                read_timeout=self.patience.answer,
                retries={"total_max_attempts": min(self.patience.retries, 2) + 1, "mode": "standard"},
                max_pool_connections=_PARALLEL,
                s3={"addressing_style": "path"},
            ),
        )
        keep_bodies(client)
        return client


def _check_length(obj: LandingObject, length: int) -> None:
    if length != obj.size:
        raise Unavailable(f"the download ended early: uri={obj.uri} bytes={length} listed={obj.size}")


def _is_path(key: str) -> bool:
    """Whether obstore sends this key as it is: it drops outer slashes and refuses these segments and characters."""
    return not _CONTROL.search(key) and not {"", ".", ".."} & set(key.split("/"))


def _spans(size: int) -> list[tuple[int, int]]:
    """First byte and end of the parts of an object that are fetched at once."""
    count = max(1, min(size // _SPAN, _SPANS))
    return [*pairwise(size * i // count for i in range(count + 1))]


def _etag(result: PutResult) -> str:
    return result["e_tag"] or ""
