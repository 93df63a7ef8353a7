"""The demo: a story of one week of files, told on a real S3, a real Iceberg REST catalog and Dagster."""

from lakehouse.demo.story import run_demo

__all__ = ["run_demo"]
