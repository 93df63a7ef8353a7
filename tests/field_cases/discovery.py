"""The field cases of discovery and of the bookmark: what others met, what happens here, and the tests that show it."""

from __future__ import annotations

from tests.field_cases.model import Case

_NEW = "tests/conformance/test_what_is_new.py"
_POSITION = "tests/conformance/test_position.py"
_LOAD = "tests/integration/test_load.py"
_CRASH = "tests/fault/test_crash.py"
_LANDING = "tests/fault/test_landing.py"
_STACK = "tests/orchestration/test_on_the_stack.py"
_PLAN = "tests/unit/test_plan.py"


def _case(id: str, elsewhere: str, rule: str, *tests: str) -> Case:
    return Case(id, elsewhere, rule, tests=tests)


DISCOVERY = (
    _case(
        "D01",
        "S3 times have whole seconds: a second object of the second of the last one read is lost.",
        "An object is new if it differs from the latest version of its key that was read; its time decides nothing.",
        f"{_NEW}::test_g18_d01_a_second_object_of_the_same_second_is_read",
    ),
    _case(
        "D02",
        "A slow upload becomes visible late with an old time, and a high-water mark steps over it.",
        "It is read when it becomes visible.",
        f"{_NEW}::test_g21_d02_a_slow_multipart_upload_is_read_when_it_becomes_visible",
    ),
    _case(
        "D03",
        "The cursor is a key: if that object is rewritten or deleted, others are skipped or nothing works.",
        "No object is an anchor: rewritten it is read again, deleted it is missed by nobody.",
        f"{_NEW}::test_d03_a_rewritten_or_deleted_object_hides_no_other",
        f"{_LOAD}::test_a_deleted_object_does_not_disturb",
    ),
    _case(
        "D04",
        "One object cannot be read for now, the next moves the pointer past it, and it is never read.",
        "It is deferred, the run ends with 3, the next load reads it.",
        f"{_LOAD}::test_an_object_that_cannot_be_fetched_now_is_left_for_the_next_load",
        f"{_LANDING}::test_d04_an_object_that_s3_does_not_give_is_read_by_the_next_load",
    ),
    _case(
        "D06",
        "A bound on the files of a run cuts an unsorted listing, and the cursor steps over the rest.",
        "Batches are cut in the order of time and key; what is over the bound is the next batch.",
        f"{_NEW}::test_g19_g23_d06_max_files_bounds_a_batch_in_the_order_of_time_and_key",
    ),
    _case(
        "D07",
        "A bounded history forgets: old objects look new, late ones look old.",
        "Nothing that was read is forgotten; a late object is planned or listed as outside the window.",
        f"{_NEW}::test_d07_what_was_read_is_never_forgotten",
    ),
    _case(
        "D08",
        "An overwritten object is ignored for ever, or loaded twice.",
        "It is a new version, merged over the old one; the ledger keeps both.",
        f"{_NEW}::test_g22_d08_an_overwritten_object_is_a_new_version_linked_to_the_old_one",
        f"{_LOAD}::test_an_overwritten_object_and_its_old_content_again_are_read_each_time",
    ),
    _case(
        "D09",
        "A tool copies objects onto themselves, and all of them are loaded again.",
        "The same ETag is the same version: nothing is read.",
        f"{_NEW}::test_g20_d09_an_object_copied_onto_itself_is_the_version_that_was_read",
    ),
    _case(
        "D12",
        "A prefix is a plain string, and a sibling folder is swept in.",
        "A source is a folder, with or without its slash.",
        f"{_LOAD}::test_siblings_markers_and_empty_objects_are_not_loaded",
    ),
    _case(
        "D13",
        "Markers of folders are taken for data.",
        "They are listed as ignored.",
        f"{_LOAD}::test_siblings_markers_and_empty_objects_are_not_loaded",
        f"{_PLAN}::test_d13_folder_markers_are_listed_as_ignored",
    ),
    _case(
        "D14",
        "An object is read before its producer has finished.",
        "`settle_seconds` defers it; then its full version is read.",
        f"{_NEW}::test_d14_an_object_is_read_once_its_producer_has_finished",
    ),
    _case(
        "D15",
        "Blanks, `+`, `%` or letters of a key are encoded once too often, and another object is opened.",
        "Keys are taken as they are, two slashes, too.",
        f"{_NEW}::test_d15_keys_are_read_as_they_are",
        f"{_NEW}::test_d15_two_slashes_are_two",
    ),
    _case(
        "D16",
        "A listing that is refused half-way ends as “no new files”.",
        "The load fails and the bookmark stays; nothing is new only after a complete listing.",
        f"{_NEW}::test_d16_a_listing_that_fails_on_its_second_page_is_no_empty_one",
        f"{_LANDING}::test_d16_a_second_page_that_s3_does_not_give_is_no_end",
    ),
    _case(
        "D17",
        "A day without files ends in an error of the schema.",
        "Nothing to do: no snapshot, 0 = 0.",
        f"{_LOAD}::test_an_empty_prefix_is_nothing_to_do",
        f"{_STACK}::test_d17_an_empty_prefix_is_a_success_and_makes_no_table",
    ),
    _case(
        "D18",
        "The state is saved at the end: the rows are there, the state is not, the next run repeats everything.",
        "Rows and bookmark are one commit.",
        f"{_CRASH}::test_killed_at",
        f"{_POSITION}::test_g32_d18_what_failed_before_its_commit_is_read_again_and_counts_once",
    ),
    _case(
        "D19",
        "The state hangs on a name: renamed, the source starts from nothing without a word.",
        "Refused with the number of objects that would be re-read; the bookmark can be renamed.",
        "tests/integration/test_rename.py::test_g09_d19_a_renamed_source_is_refused_until_the_bookmark_is_renamed",
    ),
    _case(
        "D20",
        "A reset goes back with the source alone: an append target doubles.",
        "The table is as it was, in every write mode.",
        "tests/integration/test_bookmark_change.py::test_g33_a_reset_reads_everything_again_and_changes_no_row",
    ),
    _case(
        "D21",
        "A reset is ignored, for the end that was read comes out as before.",
        "Everything is read and merged again, and the run says so.",
        "tests/integration/test_bookmark_change.py::test_g33_a_reset_reads_everything_again_and_changes_no_row",
        "tests/unit/test_plan.py::test_d21_after_a_reset_everything_is_planned_and_says_that_it_was_read",
    ),
    _case(
        "D23",
        "Two runs share a bookmark, and one overwrites the state of the other.",
        "The second waits before it reads; without that, its commit would be refused.",
        f"{_POSITION}::test_d23_a_load_waits_for_the_one_that_holds_the_table_before_it_reads",
        f"{_POSITION}::test_g13_d23_of_two_loads_at_once_the_loser_has_written_nothing_visible",
    ),
    _case(
        "D25",
        "An upgrade cuts times to the day, and all history looks changed.",
        "Times keep their microseconds; every format that was ever written is read.",
        f"{_NEW}::test_d25_times_survive_to_the_microsecond",
        "tests/unit/test_manifest.py::test_d25_times_keep_their_microseconds_and_every_generation_is_equal_to_the_byte",
        "tests/unit/test_checkpoint.py::test_the_committed_samples_of_every_format_still_load",
    ),
    _case(
        "D26",
        "A predicate on the date hides what arrives late in an old folder.",
        "It is shown as late, outside the window, with the command that loads it; the check `late_arrivals` warns.",
        f"{_NEW}::test_g25_what_a_window_leaves_out_is_listed_with_the_command_that_loads_it",
        f"{_STACK}::test_d26_a_late_object_behind_the_window_is_a_warning_with_the_command_that_loads_it",
    ),
    _case(
        "D27",
        "An archived object stops the whole run.",
        "It is quarantined as unreadable: archived; the others are loaded.",
        f"{_NEW}::test_d27_an_archived_object_stops_no_other",
    ),
    _case(
        "D28",
        "Of many thousand objects only the first page is read.",
        "Every page is read, in batches of `max_files`.",
        f"{_NEW}::test_d28_every_page_of_many_objects_is_read",
    ),
)
