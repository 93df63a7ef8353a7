"""One batch: read → stage → gate → merge → publish, with its counts and its equations."""

from lakehouse.batch.run import BatchResult, run_batch
from lakehouse.batch.task import BatchTask

__all__ = ["BatchResult", "BatchTask", "run_batch"]
