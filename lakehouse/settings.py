"""What the environment says, read once at the edge and passed on as a value."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import ConfigurationError
from lakehouse.units import parse_bytes


@dataclass(frozen=True, slots=True)
class Settings:
    """Configuration of one process (INTERFACE, Configuration). `state` None: derived from the warehouse."""

    catalog: str
    state: str | None
    spill: Path
    memory_bytes: int
    ops_namespace: str
    assets: Path


def read_settings(env: Mapping[str, str]) -> Settings:
    """Read the `LAKEHOUSE_*` variables; a value that cannot be read raises ConfigurationError naming it."""
    memory = env.get("LAKEHOUSE_MEMORY")
    try:
        memory_bytes = parse_bytes(memory) if memory else _half_of_memory()
    except ValueError as error:
        raise ConfigurationError(f"LAKEHOUSE_MEMORY: {error}", next="export LAKEHOUSE_MEMORY=8GB") from None
    namespace = env.get("LAKEHOUSE_OPS_NAMESPACE") or "lakehouse_ops"
    if not re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*", namespace):
        raise ConfigurationError(
            f"LAKEHOUSE_OPS_NAMESPACE: no Iceberg namespace: {namespace!r}; letters, digits, _ and .",
            next="export LAKEHOUSE_OPS_NAMESPACE=lakehouse_ops",
        )
    return Settings(
        catalog=env.get("LAKEHOUSE_CATALOG") or "default",
        state=env.get("LAKEHOUSE_STATE") or None,
        spill=Path(env.get("LAKEHOUSE_SPILL") or tempfile.gettempdir()),
        memory_bytes=memory_bytes,
        ops_namespace=namespace,
        assets=assets_folder(env),
    )


def assets_folder(env: Mapping[str, str]) -> Path:
    """The folder searched for declarations: all that finding a declaration needs of the environment."""
    return Path(env.get("LAKEHOUSE_ASSETS") or "assets/defs")


def _half_of_memory() -> int:
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        path = Path(name)
        if path.is_file() and (text := path.read_text().strip()).isdigit():
            limits.append(int(text))
    return min(limits) // 2
