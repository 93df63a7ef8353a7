"""How a URI finds its storage. Sends no request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lakehouse.errors import ConfigurationError
from lakehouse.storage.interface import Storage
from lakehouse.storage.patience import Patience


def open_storage(uri: str, env: Mapping[str, str], *, patience: Patience | None = None) -> Storage:
    """Open `s3://bucket[/folder]` or `file:///folder`. `env` gives endpoint, region and credentials (INTERFACE).

    Sends no request. Raises ConfigurationError for another kind of URI and where no credentials are found.
    """
    # Imported here: local folders should not pay for boto3, which takes most of a second to import.
    if uri.startswith("s3://"):
        from lakehouse.storage.s3 import open_bucket

        bucket, _, folder = uri.removeprefix("s3://").partition("/")
        if not bucket:
            raise ConfigurationError(f"the address names no bucket: uri={uri}")
        return open_bucket(bucket, _folder(folder), env=env, patience=patience or Patience())
    if uri.startswith("file:///"):
        from lakehouse.storage.local import LocalStorage

        return LocalStorage(Path(uri.removeprefix("file://")))
    raise ConfigurationError(f"storage is s3://bucket/folder or file:///folder: uri={uri}")


def open_root(uri: str, env: Mapping[str, str], *, patience: Patience | None = None) -> Storage:
    """The whole bucket that an object or a prefix lies in, or the folder of a local file: keys are those that listings
    have. Raises as `open_storage` does."""
    return open_storage(split_uri(uri)[0], env, patience=patience)


def split_uri(uri: str) -> tuple[str, str]:
    """Root and key of one object: `s3://bucket/` and the rest, or the folder and the name of a local file."""
    if uri.startswith("s3://"):
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return f"s3://{bucket}/", key
    if uri.startswith("file:///"):
        folder, _, name = uri.rpartition("/")
        return f"{folder}/", name
    raise ConfigurationError(f"storage is s3://bucket/folder or file:///folder: uri={uri}")


def _folder(prefix: str) -> str:
    return prefix if not prefix or prefix.endswith("/") else prefix + "/"
