from __future__ import annotations

import gc

import pytest

from lakehouse.uncollected import uncollected


def test_collection_goes_on_when_the_last_one_has_left() -> None:
    assert gc.isenabled()
    with uncollected():
        with pytest.raises(ValueError, match="inside"), uncollected():
            raise ValueError("inside")
        assert not gc.isenabled()
    assert gc.isenabled()


def test_whoever_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
