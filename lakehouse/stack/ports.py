"""The eleven ports of the local stack, and which of them are free. Binds ports for a moment, never connects."""

from __future__ import annotations

import random
import socket
from dataclasses import asdict, dataclass

from lakehouse.errors import ConfigurationError

ADDRESS = "127.0.0.1"

# Below 32768, where Linux starts to hand out ports to outgoing connections: those could be taken again before we bind.
_LOWEST, _HIGHEST = 10_000, 32_000
_ADMIN_GRPC_OFFSET = 10_000


@dataclass(frozen=True, slots=True)
class StackPorts:
    """TCP ports on 127.0.0.1. All are set: a server port left to SeaweedFS moves silently if it is taken.

    `admin_grpc` is `admin` + 10000, which SeaweedFS's own worker takes for granted.
    """

    s3: int
    iceberg: int
    master: int
    master_grpc: int
    volume: int
    volume_grpc: int
    filer: int
    filer_grpc: int
    s3_grpc: int
    admin: int
    admin_grpc: int

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


DEFAULT_PORTS = StackPorts(
    s3=8333,
    iceberg=8181,
    master=9333,
    master_grpc=19333,
    volume=9340,
    volume_grpc=19340,
    filer=18888,
    filer_grpc=28888,
    s3_grpc=18333,
    admin=13646,
    admin_grpc=23646,
)


def free_ports() -> StackPorts:
    """Ports that nobody listens on now; another process can still take one before the stack does."""
    names = list(StackPorts.__dataclass_fields__)
    candidates = random.SystemRandom().sample(range(_LOWEST, _HIGHEST), _HIGHEST - _LOWEST)
    admin = next(p for p in candidates if p < _HIGHEST - _ADMIN_GRPC_OFFSET and _pair_is_free(p))
    taken = {"admin": admin, "admin_grpc": admin + _ADMIN_GRPC_OFFSET}
    rest = (p for p in candidates if p not in taken.values() and is_free(p))
    return StackPorts(**(taken | {name: next(rest) for name in names if name not in taken}))


def require_free(ports: StackPorts) -> None:
    """Raise ConfigurationError naming every port that somebody else listens on."""
    taken = [f"{name}={port}" for name, port in ports.as_dict().items() if not is_free(port)]
    if taken:
        raise ConfigurationError(
            f"the local stack cannot start: in use on {ADDRESS}: {', '.join(taken)}; stop what listens there",
            next="lakehouse stack up --free-ports   # or take others",
        )


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose last connections are still fading out is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
    return True


def _pair_is_free(admin: int) -> bool:
    return is_free(admin) and is_free(admin + _ADMIN_GRPC_OFFSET)
