"""What this machine and its environment have to offer: releases, spill folder, credentials. Sends no request."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from lakehouse.doctor.check import Check, missing, ok, skipped, warning
from lakehouse.errors import ConfigurationError
from lakehouse.scratch import check_spill

DISTRIBUTION = "lakehouse-bookmark"
LEAST_SPILL = 1 << 30
"""Below this many free bytes even a small batch may not end."""
_SHOWN = ("pyiceberg", "duckdb", "pyarrow", "obstore", "dagster")


def check_releases() -> Check:
    """Python and every required distribution, compared with what this release asks for."""
    try:
        wanted = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or []]
        own = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return skipped("versions", "python", f"{DISTRIBUTION} runs from a folder and is not installed")
    found = {one.name: _installed(one.name) for one in wanted if one.marker is None or one.marker.evaluate()}
    wrong = [
        f"{one.name} {found[one.name] or 'is not installed'}, wanted {one.specifier}"
        for one in wanted
        if one.name in found and not one.specifier.contains(found[one.name] or "0", prereleases=True)
    ]
    if wrong:
        return missing("versions", "python", "; ".join(wrong), next=f"pip install --upgrade {DISTRIBUTION}")
    shown = ", ".join(f"{name} {found.get(name)}" for name in _SHOWN)
    return ok("versions", "python", f"lakehouse {own}, Python {platform.python_version()}, {shown}")


def check_room(spill: Path, *, largest_batch: int) -> Check:
    """Whether batches can be staged; `largest_batch` is in bytes, as declared."""
    subject = str(spill)
    grow = "point LAKEHOUSE_SPILL to a local folder with room that this user may write to"
    try:
        check_spill(spill)
    except ConfigurationError as error:
        return missing("spill folder", subject, error.message, next=error.next)
    free = shutil.disk_usage(spill).free
    text = f"{free / 1e9:.1f} GB free"
    if free < LEAST_SPILL:
        return missing("spill folder", subject, text, next=grow)
    if free < largest_batch:
        return warning(
            "spill folder",
            subject,
            f"{text}, and max_bytes lets a batch have {largest_batch / 1e9:.1f} GB",
            next=f"lower max_bytes, or {grow}",
        )
    return ok("spill folder", subject, text)


def check_credentials(env: Mapping[str, str]) -> Iterator[Check]:
    """Whether boto3's chain finds credentials, by which way, and for which region and endpoint."""
    # Imported here: who works on local folders alone should not pay for boto3.
    from lakehouse.storage.credentials import find_access, without_password

    try:
        access = find_access(env, subject="s3://")
    except ConfigurationError as error:
        yield missing("credentials", "boto3's chain", error.message, next=error.next)
        return
    found = access.session.get_credentials()
    way = found.method if found is not None else "explicit"
    where = without_password(access.endpoint) if access.endpoint else "AWS"
    yield ok("credentials", "boto3's chain", f"found by {way}, region={access.region}, endpoint={where}")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
