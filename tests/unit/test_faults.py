from __future__ import annotations

import pytest

from lakehouse.errors import ConfigurationError
from lakehouse.faults import LOAD_POINTS, UPKEEP_POINTS, check_fault


@pytest.mark.parametrize("asked", ["", *LOAD_POINTS, *UPKEEP_POINTS, "after_stage:stop"])
def test_a_point_that_a_step_has_is_taken(asked: str) -> None:
    check_fault({"LAKEHOUSE_FAULT": asked})


@pytest.mark.parametrize("asked", ["after_leese", "after_stage:kill", "stop"])
def test_a_fault_that_would_never_come_is_refused(asked: str) -> None:
    with pytest.raises(ConfigurationError, match=f"LAKEHOUSE_FAULT={asked} names no fault") as caught:
        check_fault({"LAKEHOUSE_FAULT": asked})
    assert caught.value.next == "unset LAKEHOUSE_FAULT"
