"""What goes wrong with the spill folder is told with what to change."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lakehouse.errors import ConfigurationError
from lakehouse.scratch import spilling


def test_a_full_disk_is_told_with_what_helps(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No space left on device") as caught, spilling(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(tmp_path) in caught.value.message
    assert "export LAKEHOUSE_SPILL=" in caught.value.next
