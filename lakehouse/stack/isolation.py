"""Keeps the developer's own configuration out of what runs on a local stack. Never reads that configuration."""

from __future__ import annotations

from pathlib import Path


def without_home(folder: Path) -> dict[str, str]:
    """Variables under which PyIceberg and boto3 read no file of the home folder; a file in `folder` stands in for them.

    Both would merge what they find there, a catalog `default` with other credentials say, into the stack's variables.
    """
    # PyIceberg goes on to the home folder unless its file says something.
    (folder / ".pyiceberg.yaml").write_text("default-catalog: default\n")
    nothing = str(folder / "no-aws-configuration")
    return {
        "PYICEBERG_HOME": str(folder),
        "AWS_CONFIG_FILE": nothing,
        "AWS_SHARED_CREDENTIALS_FILE": nothing,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
