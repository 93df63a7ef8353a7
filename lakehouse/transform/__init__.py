"""The declared SQL between staging and the gates: how it is vetted, and how it is run over the rows of a batch."""

from lakehouse.transform.run import Transformed, transform
from lakehouse.transform.script import check_sql

__all__ = ["Transformed", "check_sql", "transform"]
