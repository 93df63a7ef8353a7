"""Builds the Python environments of other Iceberg readers, DuckDB's and Spark's, once, under `.readers/`.

Everything is pinned by hash: wheels by `duckdb.txt` and `spark.txt`, jars by `spark.jars`. What the machine lacks
(Java, Maven, a package registry) raises Missing, which tests turn into one visible skip per reader. Building is safe
when two processes start at once, and costs nothing when an environment is current. `python -m
tests.readers.environment` builds all of them and prints where they are.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".readers"
BUILD_SECONDS = 420.0
"""A registry that answers slowly is waited for this long, per step."""
JAVA = (17, 21)
"""Java versions that Spark 3.5 runs on and Iceberg's jars ask for: from the first up to the second."""


class Missing(Exception):
    """A reader cannot run on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python that can run a reader's server; `jars` is empty but for Spark."""

    python: Path
    jars: tuple[Path, ...] = ()


def duckdb_environment() -> Environment:
    """DuckDB 1.5 with its iceberg extension, which PyPI carries. Raises Missing."""
    return Environment(_python("duckdb"))


def spark_environment() -> Environment:
    """PySpark 3.5, Iceberg's runtime with its AWS bundle, and spark-avro. Raises Missing."""
    java_version()
    return Environment(_python("spark"), _jars())


def java_version() -> int:
    """Major version of the Java on PATH. Raises Missing unless Spark can use it."""
    if shutil.which("java") is None:
        raise Missing(f"Java {JAVA[0]} is not installed")
    shown = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    found = re.search(r'version "(\d+)', shown)
    version = int(found[1]) if found else 0
    if not JAVA[0] <= version <= JAVA[1]:
        raise Missing(f"Java {JAVA[0]} is needed, not {version}")
    return version


def _python(name: str) -> Path:
    """The Python of an environment made from `<name>.txt`."""
    pins = HERE / f"{name}.txt"
    folder = CACHE / name
    python = folder / "bin" / "python"
    base = str(Path(sys.executable).resolve())
    # The place counts too: a copied environment still points at its old folder.
    wanted = hashlib.sha256(pins.read_bytes() + f"{base} {folder}".encode()).hexdigest()
    with _exclusive(name):
        if _stamp(folder) == wanted and python.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        uv = str(ROOT / "scripts" / "uv")
        _run([uv, "venv", "-q", "--python", base, str(folder)], f"the environment of {name} cannot be made")
        # PySpark comes as source: what builds it is pinned by the same file.
        asked = ["--require-hashes", "-r", str(pins), "--build-constraints", str(pins)]
        _run(
            [uv, "pip", "install", "-q", "--compile-bytecode", "--python", str(python), *asked],
            f"the packages of {name} cannot be installed",
        )
        (folder / "current").write_text(wanted)
    return python


def _jars() -> tuple[Path, ...]:
    """Local copies of the jars of `spark.jars`, each checked by its digest."""
    lines = [line.split() for line in (HERE / "spark.jars").read_text().splitlines() if not line.startswith("#")]
    folder = CACHE / "jars"
    with _exclusive("jars"):
        folder.mkdir(exist_ok=True)
        return tuple(_jar(digest, coordinate, folder) for digest, coordinate in lines)


def _jar(digest: str, coordinate: str, folder: Path) -> Path:
    _, artifact, version = coordinate.split(":")
    path = folder / f"{artifact}-{version}.jar"
    checked = path.with_suffix(".sha256")
    if path.exists() and checked.exists() and checked.read_text() == digest:
        return path
    if shutil.which("mvn") is None:
        raise Missing("Maven is not installed")
    arriving = folder / "arriving"
    _run(
        ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={coordinate}", f"-DoutputDirectory={arriving}"],
        f"{coordinate} cannot be fetched",
    )
    found = hashlib.sha256((arriving / path.name).read_bytes()).hexdigest()
    if found != digest:
        raise Missing(f"{coordinate} is not the pinned file: sha256={found}")
    (arriving / path.name).replace(path)
    checked.write_text(digest)
    return path


def _stamp(folder: Path) -> str:
    current = folder / "current"
    return current.read_text() if current.exists() else ""


@contextmanager
def _exclusive(name: str) -> Iterator[None]:
    """Only one process builds an environment; the others wait for it and find it current."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{what}: no answer in {BUILD_SECONDS:.0f} s") from error
    if done.returncode:
        last = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()][-1:]
        raise Missing(f"{what}: {' '.join(last)}")


if __name__ == "__main__":
    for build in (duckdb_environment, spark_environment):
        try:
            print(build())
        except Missing as missing:
            print(f"skipped: {missing}")
