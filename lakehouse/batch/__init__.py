"""One batch: read → stage → gate → merge → publish, with its counts and its equations."""

from lakehouse.batch.run import BatchResult, BatchTask, run_batch

__all__ = ["BatchResult", "BatchTask", "run_batch"]
