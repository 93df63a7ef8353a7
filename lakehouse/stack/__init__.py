"""The local stack: a real S3 and a real Iceberg REST catalog from the SeaweedFS wheel, on this machine alone.

Starts, finds, describes and stops one server process per directory. It never writes a table or an object, never
listens on another address than 127.0.0.1, and never signals a process that it did not start.
"""

from __future__ import annotations

from lakehouse.stack.environment import catalog_properties, conflicting_variables, stack_environment
from lakehouse.stack.guard import temporary_stack
from lakehouse.stack.isolation import without_home
from lakehouse.stack.ports import DEFAULT_PORTS, StackPorts, free_ports
from lakehouse.stack.server import running_stack, start_stack, stop_stack
from lakehouse.stack.state import LANDING_BUCKET, STATE_BUCKET, TABLE_BUCKET, Stack

__all__ = [
    "DEFAULT_PORTS",
    "LANDING_BUCKET",
    "STATE_BUCKET",
    "TABLE_BUCKET",
    "Stack",
    "StackPorts",
    "catalog_properties",
    "conflicting_variables",
    "free_ports",
    "running_stack",
    "stack_environment",
    "start_stack",
    "stop_stack",
    "temporary_stack",
    "without_home",
]
