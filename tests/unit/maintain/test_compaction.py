from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestFile
from pyiceberg.manifest import ManifestContent as Content
from pyiceberg.typedef import Record

from lakehouse.iceberg import LiveFiles, LiveManifest
from lakehouse.maintain import compaction
from lakehouse.maintain.compaction import Group, plan_groups


def file(path: str, part: int, size: int, content: DataFileContent = DataFileContent.DATA) -> DataFile:
    made = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(part),
        record_count=10,
        file_size_in_bytes=size,
    )
    made.spec_id = 0
    return made


def live(data: Sequence[DataFile], deletes: int = 0) -> LiveFiles:
    kinds = ((Content.DATA, data), (Content.DELETES, [_deletes(number) for number in range(deletes)]))
    return LiveFiles(
        tuple(
            LiveManifest(
                ManifestFile.from_args(content=content, manifest_path=str(content)),
                tuple(ManifestEntry.from_args(data_file=one) for one in files),
            )
            for content, files in kinds
        )
    )


def _deletes(number: int) -> DataFile:
    """A delete file that does not say of which data files it speaks."""
    return file(f"d{number}", 0, 1, DataFileContent.POSITION_DELETES)


def paths(groups: Sequence[Group]) -> list[str]:
    return [" ".join(target.path for target in group.files) for group in groups]


def test_small_files_of_a_partition_are_taken_together_and_single_ones_left() -> None:
    files = [file("a", 1, 10), file("b", 2, 10), file("c", 1, 10), file("large", 1, 60), file("e", 2, 60)]
    assert paths(plan_groups(live(files), [], target_bytes=100)) == ["a c"]


def test_files_with_deletes_are_taken_whatever_their_size() -> None:
    files = [file("a", 1, 10), file("large", 1, 60), file("other", 2, 90)]
    groups = plan_groups(live(files, deletes=2), [frozenset({"large"}), frozenset({"gone"})], target_bytes=100)
    assert paths(groups) == ["large"]
    assert groups[0].shared == {"d0"}, "a delete file that names no live file is not a group's"


def test_files_that_share_a_delete_file_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "COMMIT_BYTES", 25)
    files = [file(name, 1, 10) for name in "abcdef"]
    groups = plan_groups(live(files, deletes=1), [frozenset("ace")], target_bytes=100)
    assert (paths(groups), [group.shared for group in groups]) == (["a c e", "b d"], [{"d0"}, frozenset()])


def test_a_delete_file_of_two_partitions_outlives_the_first() -> None:
    files = [file("a", 1, 10), file("b", 2, 10)]
    groups = plan_groups(live(files, deletes=1), [frozenset("ab")], target_bytes=100)
    assert (paths(groups), [group.shared for group in groups]) == (["a", "b"], [frozenset(), frozenset()])


def test_a_group_has_a_bounded_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "COMMIT_FILES", 3)
    groups = plan_groups(live([file(str(n), 1, 1) for n in range(8)]), [], target_bytes=100)
    assert paths(groups) == ["0 1 2", "3 4 5", "6 7"]
