"""Whether everything is there that loads need: settings, room, credentials, and every right on S3 and the catalog."""

from lakehouse.doctor.check import Check, Standing
from lakehouse.doctor.examine import examine

__all__ = ["Check", "Standing", "examine"]
