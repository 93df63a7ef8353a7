"""How long storage is waited for. A plain value; reads no clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of one request, in seconds; the defaults give up on an unreachable endpoint after about 10 to 15 s.

    `connect`: until a connection stands. `answer`: without a byte of a small answer. `body`: without a byte of a large
    one. `retries`: further tries after a 5xx, a 429 or a broken connection, the first after `backoff`, each later one
    after about twice as long. `give_up`: no further try starts after it.
    """

    connect: float = 3.0
    answer: float = 10.0
    body: float = 30.0
    retries: int = 5
    backoff: float = 0.2
    give_up: float = 10.0
