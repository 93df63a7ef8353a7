"""The rules of the bookmarks that this system replaces, what each becomes here, and the tests that show it."""

from __future__ import annotations

from dataclasses import dataclass

NEW = "tests/conformance/test_what_is_new.py"
POSITION = "tests/conformance/test_position.py"
ERRORS = "tests/conformance/test_errors.py"
RUNS = "tests/conformance/test_runs.py"
MODES = "tests/integration/test_modes.py"
SOURCES = "tests/integration/test_many_sources.py"
RENAME = "tests/integration/test_rename.py"
CHANGE = "tests/integration/test_bookmark_change.py"
REWIND = "tests/integration/test_rewind_table.py"

NUMBERS = (*range(1, 11), 12, 13, 14, *range(16, 27), *range(28, 39))
"""Of the rules; 11, 15 and 27 are none."""
DATABASE = "waits for the database source"


@dataclass(frozen=True)
class Rule:
    """`tests` are `path::name`, with the number in each name; `waits` says why there is none."""

    number: int
    glue: str
    ours: str
    tests: tuple[str, ...] = ()
    waits: str = ""

    @property
    def id(self) -> str:
        return f"G{self.number}"


def _in(path: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{path}::{name}" for name in names)


RULES = (
    Rule(
        1,
        "`job-bookmark-enable` reads what is new since the last run and moves the bookmark; it has to be switched on",
        "`mode: incremental`, the default: reads what is unseen and takes it in",
        _in(POSITION, "test_g01_enable_reads_what_is_unseen_and_takes_it_in"),
    ),
    Rule(
        2,
        "`job-bookmark-disable`, the default, reads everything, and an append target doubles",
        "`mode: full` reads everything; the merge changes no row that is there, in every write mode",
        _in(POSITION, "test_g02_disable_reads_everything_and_doubles_nothing"),
    ),
    Rule(
        3,
        "the option has three words",
        "they are accepted wherever a mode is asked for",
        _in(POSITION, "test_g03_the_words_of_the_replaced_system_are_understood"),
    ),
    Rule(
        4,
        "`job-bookmark-pause` reads the increment and moves nothing",
        "`mode: no-advance`: rows are merged, what is seen stays as it is",
        _in(MODES, "test_g04_pause_reads_the_increment_and_moves_nothing"),
    ),
    Rule(
        5,
        "`job-bookmark-from`: input up to and including that run is left out",
        "`--from-batch`, a batch id or bookmark version, left out itself",
        _in(MODES, "test_g05_g06_a_range_is_open_at_its_beginning_and_closed_at_its_end"),
    ),
    Rule(
        6,
        "`job-bookmark-to`: input up to and including that run is read",
        "`--to-batch`, read itself; `lakehouse plan` prints both edges",
        _in(MODES, "test_g05_g06_a_range_is_open_at_its_beginning_and_closed_at_its_end"),
    ),
    Rule(
        7,
        "both only together, and only with pause",
        "the same; one alone, another mode or an empty range is a named error",
        _in(MODES, "test_g07_a_range_has_two_ends_and_leaves_the_bookmark"),
    ),
    Rule(
        8,
        "state per job, with one element for each `transformation_ctx`; a source without one is not tracked",
        "a bookmark for each source of a table, with a version, a chain and a tag of its own; none is untracked",
        _in(
            SOURCES,
            "test_g08_each_source_has_a_position_of_its_own",
            "test_g08_one_failing_source_holds_back_none_of_the_others",
        ),
    ),
    Rule(
        9,
        "a renamed context starts from nothing and reads all history again",
        "a renamed or re-pointed source is refused with what would be re-read; `bookmark rename`, or `--accept-new`",
        _in(
            RENAME,
            "test_g09_d19_a_renamed_source_is_refused_until_the_bookmark_is_renamed",
            "test_g09_a_repointed_source_is_refused_until_it_is_accepted",
        ),
    ),
    Rule(
        10,
        "the state holds hashes of the paths of the last 15 minutes",
        "it holds every object, in the manifests and, readable by SQL, in `lakehouse_ops.files`",
        _in(POSITION, "test_g10_every_object_is_in_the_state_and_readable_by_sql"),
    ),
    Rule(
        12,
        "counters of runs, attempts and versions",
        "one version, plus one with each batch and each operator's change; each attempt has an id",
        _in(POSITION, "test_g12_every_batch_and_every_attempt_is_counted"),
    ),
    Rule(
        13,
        "the commit of the bookmark compares the version; the loser has written its data already",
        "the comparison is in the commit of the data: the loser has written nothing visible",
        _in(POSITION, "test_g13_d23_of_two_loads_at_once_the_loser_has_written_nothing_visible"),
    ),
    Rule(
        14,
        "deleting the job deletes the bookmark",
        "it lives in the table: a declaration that goes away takes nothing along",
        _in(POSITION, "test_g14_dropping_a_declaration_drops_nothing"),
    ),
    Rule(
        16,
        "only what is younger than the last run's start is looked at: T0 < mtime",
        "newness is a difference from the latest version of the key that was read; a time decides nothing",
        _in(NEW, "test_g16_an_object_older_than_the_last_load_is_read"),
    ),
    Rule(
        17,
        "only what is not younger than this run's start is read: mtime ≤ T1",
        "what is listed is read, whatever its time",
        _in(NEW, "test_g17_an_object_of_the_future_is_read_now_and_once"),
    ),
    Rule(
        18,
        "the last 15 minutes are listed again and compared with a list of hashes",
        "everything that is listed is compared with everything that was read",
        _in(NEW, "test_g18_d01_a_second_object_of_the_same_second_is_read"),
    ),
    Rule(
        19,
        "`maxFilesInBand` bounds the files of that band",
        "`max_files` bounds a batch, in the order of time and key; the rest is the next batch, never skipped",
        _in(NEW, "test_g19_g23_d06_max_files_bounds_a_batch_in_the_order_of_time_and_key"),
    ),
    Rule(
        20,
        "an object whose time changed is read again",
        "the same ETag is the same version, whatever its time",
        _in(NEW, "test_g20_d09_an_object_copied_onto_itself_is_the_version_that_was_read"),
    ),
    Rule(
        21,
        "a multipart upload that takes longer than the band carries the time of its start, and is lost",
        "it is read when it becomes visible",
        _in(NEW, "test_g21_d02_a_slow_multipart_upload_is_read_when_it_becomes_visible"),
    ),
    Rule(
        22,
        "an overwritten object is read again, and nothing is retracted",
        "it is a new version, linked to the old one; `on_overwrite: retract` takes out the keys that vanished",
        _in(
            NEW,
            "test_g22_d08_an_overwritten_object_is_a_new_version_linked_to_the_old_one",
            "test_g22_keys_that_vanished_are_retracted_where_that_is_declared",
        ),
    ),
    Rule(
        23,
        "`boundedFiles`, `boundedSize` bound a run",
        "`max_files`, `max_bytes` bound a batch; a load commits batch after batch until nothing is left",
        _in(
            NEW,
            "test_g19_g23_d06_max_files_bounds_a_batch_in_the_order_of_time_and_key",
            "test_g23_max_bytes_bounds_a_batch_and_loses_no_large_object",
        ),
    ),
    Rule(
        24,
        "CSV, JSON, Avro, XML, Parquet, ORC are tracked",
        "the same, JSON as lines and as documents",
        _in(POSITION, "test_g24_every_format_is_tracked"),
    ),
    Rule(
        25,
        "what no partition registers and what a predicate cuts is not seen",
        "the listing is the source; what a window cuts is listed as outside of it, with the command that loads it",
        _in(NEW, "test_g25_what_a_window_leaves_out_is_listed_with_the_command_that_loads_it"),
    ),
    Rule(
        26,
        "Python shell jobs and plain reads are not tracked",
        "every load of a declaration is, from wherever it is started",
        _in(POSITION, "test_g26_every_way_to_load_shares_one_bookmark"),
    ),
    Rule(28, "`jobBookmarkKeys` of a table, with a sort order", "keys and order", waits=DATABASE),
    Rule(29, "the primary key is the default, if it has no gaps", "gaps do no harm", waits=DATABASE),
    Rule(30, "new rows alone are found", "an overlap window; a warning where updates cannot be seen", waits=DATABASE),
    Rule(31, "parallel reads by hash", "parallel reads of one closed range", waits=DATABASE),
    Rule(
        32,
        "what failed before the commit is read again: at least once",
        "it is read again, and its effect is there once",
        _in(POSITION, "test_g32_d18_what_failed_before_its_commit_is_read_again_and_counts_once"),
    ),
    Rule(
        33,
        "`reset-job-bookmark` clears every context of the job",
        "`bookmark reset` clears one source or `--all`, says how many objects are re-read, and leaves the table alone",
        _in(CHANGE, "test_g33_a_reset_reads_everything_again_and_changes_no_row"),
    ),
    Rule(
        34,
        "a rewind goes back to the end of a run",
        "`bookmark rewind --to-batch`: what was seen after a batch or version, and nothing since",
        _in(CHANGE, "test_g34_a_rewind_sees_what_was_seen_after_a_batch"),
    ),
    Rule(
        35,
        "the target is not cleaned: reading again doubles an append target",
        "reading again doubles nothing, and `--with-table` takes rows and bookmark back in one commit",
        _in(
            REWIND,
            "test_g35_an_append_table_goes_back_without_doubling",
            "test_g35_rows_and_bookmark_go_back_in_one_commit",
        ),
    ),
    Rule(
        36,
        "documented causes make a job read again or skip: runs at once, no commit, no context, not enabled",
        "what can be forgotten there is no setting here; what others do to the table is named before anything is read",
        _in(
            ERRORS,
            "test_g36_what_made_jobs_read_again_is_named_before_anything_is_read",
            "test_g36_what_could_be_forgotten_cannot",
        ),
    ),
    Rule(
        37,
        "errors have names: a version that does not match, a run that is not found",
        "each situation is a named error with an exit code and the next command",
        _in(ERRORS, "test_g37_every_situation_has_a_named_error_with_the_next_command"),
    ),
    Rule(
        38,
        "no retry after a timeout; a run may go on for hours; concurrency has to be 1",
        "bounded retries, none for what another try does not change; runs end long before their window; one writer",
        _in(
            RUNS,
            "test_g38_what_another_try_does_not_change_is_not_tried_again",
            "test_g38_what_may_succeed_later_is_tried_again_a_bounded_number_of_times",
            "test_g38_a_run_ends_long_before_its_load_window",
            "test_g38_a_table_has_one_writer",
        ),
    ),
)
