"""The environments of the peers: pinned packages in folders beside this file, which git ignores, built when first used.

Builds with the project's own uv; Spark's jars are fetched by Spark itself, by their Maven coordinates. Nothing here is
installed into the project's environment, and our loader uses none of it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(__file__).resolve().parent / ".peers"
JAVA = (11, 17)
"""Versions of Java that Spark 3.5 and Iceberg 1.10 both run on."""

_EXTENSIONS = ("iceberg", "avro", "httpfs")
_PACKAGES = {
    "duckdb": ("duckdb==1.5.5", *(f"duckdb-extension-{name}==1.5.5" for name in _EXTENSIONS)),
    "spark": ("pyspark==3.5.7", "boto3==1.44.8"),
}


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody else's merge. `module` runs it, `kind` is what `--peers` calls it, `slow` ones are repeated less."""

    name: str
    kind: str
    module: str
    options: tuple[str, ...] = ()
    slow: bool = True


PYICEBERG = Peer("PyIceberg upsert", "pyiceberg", "peer_pyiceberg")
DUCKDB = Peer("DuckDB MERGE", "duckdb", "peer_duckdb", slow=False)
SPARK_READ = Peer("Spark merge-on-read", "spark", "peer_spark", ("--mode", "merge-on-read"))
SPARK_WRITE = Peer("Spark copy-on-write", "spark", "peer_spark", ("--mode", "copy-on-write"))
KINDS = ("pyiceberg", "duckdb", "spark")
BY_WORKLOAD = {
    "daily": (PYICEBERG, DUCKDB, SPARK_READ, SPARK_WRITE),
    "scatter": (PYICEBERG, DUCKDB, SPARK_READ),
    "scatter-late": (DUCKDB,),
    "wide": (PYICEBERG, DUCKDB),
}
"""Who runs beside us; the other workloads compare our loads with each other."""


@dataclass(frozen=True, slots=True)
class Environment:
    """How to start a peer's processes."""

    python: str
    variables: tuple[tuple[str, str], ...] = ()


class PeerMissing(Exception):
    """A peer cannot run here; the text says why."""


def environment(kind: str, say: Callable[[str], object]) -> Environment:
    """The environment of a peer of KINDS, built if it is not there; `say` is told of it. Raises PeerMissing."""
    if kind == "pyiceberg":
        return Environment(sys.executable)
    if kind == "spark":
        _require_java()
    packages = _PACKAGES[kind]
    folder, ready = CACHE / kind, CACHE / f"{kind}.json"
    variables = (("SPARK_IVY", str(CACHE / "ivy")),) if kind == "spark" else ()
    built = Environment(str(folder / "bin" / "python"), variables)
    if ready.is_file() and json.loads(ready.read_text()) == list(packages):
        return built
    say(f"building the environment of {kind}: {', '.join(packages)}")
    CACHE.mkdir(exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    _call("scripts/uv", "venv", "--quiet", str(folder))
    _call("scripts/uv", "pip", "install", "--quiet", "--python", built.python, *packages)
    if kind == "spark":
        _call(built.python, "-m", "benchmarks.peer_spark", "warm", variables=variables)
    ready.write_text(json.dumps(packages))
    return built


def parse_java_version(text: str) -> int | None:
    """The major version in the output of `java -version`; None if there is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _require_java() -> None:
    if shutil.which("java") is None:
        raise PeerMissing("Java is not installed")
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    version = parse_java_version(told.stderr + told.stdout)
    if version not in JAVA:
        raise PeerMissing(f"Java {' or '.join(map(str, JAVA))} is needed, found {version}")


def _call(*command: str, variables: Sequence[tuple[str, str]] = ()) -> None:
    env = {**os.environ, **dict(variables)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise PeerMissing(f"{' '.join(command[:3])} failed: {' '.join(last)}")
