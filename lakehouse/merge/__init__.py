"""The merge: which staged rows win, what they hit in the target, and the files that result.

`supersede` orders the batch, `match_target` finds and compares target rows, `write_files` writes what changed. Nothing
here publishes: the files are invisible until `lakehouse.publish` commits them.
"""

from lakehouse.merge.match import Match, MatchCounts, match_target, numbered
from lakehouse.merge.supersede import Superseded, supersede
from lakehouse.merge.target_files import TargetReader
from lakehouse.merge.write import WrittenFiles, write_files

__all__ = [
    "Match",
    "MatchCounts",
    "Superseded",
    "TargetReader",
    "WrittenFiles",
    "match_target",
    "numbered",
    "supersede",
    "write_files",
]
