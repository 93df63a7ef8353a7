from __future__ import annotations

import gc
import sys

import pytest

from lakehouse.bulk import in_bulk


def test_all_is_as_before_when_the_last_one_has_left() -> None:
    turn = sys.getswitchinterval()
    assert gc.isenabled()
    with in_bulk():
        with pytest.raises(ValueError, match="inside"), in_bulk():
            raise ValueError("inside")
        assert not gc.isenabled()
        assert sys.getswitchinterval() < turn
    assert gc.isenabled()
    assert sys.getswitchinterval() == turn


def test_whoever_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with in_bulk():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
