"""Runs of the asset on a real Dagster instance, with a lake in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import dagster as dg
import pytest

from lakehouse.errors import ConfigurationError, Unavailable
from lakehouse.model import GateResult, Mode, State, Window
from lakehouse.orchestration import build_table_definitions, failure, run_checks
from lakehouse.orchestration.names import BACKFILL, MAX_RETRIES, REFUSED, SCHEDULE, STATE, TRIGGER
from lakehouse.orchestration.progress import ProgressLog
from lakehouse.services import Progress
from tests.orchestration_lake import Lake, daily_table, failed

KEY = dg.AssetKey(["analytics", "orders"])
DAY = "2024-01-02"
RETRIES = {"run_retries": {"enabled": True, "max_retries": 2}}


@pytest.fixture
def lake() -> Lake:
    return Lake()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral(settings=RETRIES) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure, "RETRY_SECONDS", 0)


def run(
    lake: Lake,
    instance: dg.DagsterInstance,
    partition: str | None = DAY,
    *,
    config: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    declaration: Any = None,
) -> dg.ExecuteInProcessResult:
    """One run of the asset, its checks, and an asset behind it."""

    @dg.asset(deps=[KEY], name="behind")
    def behind() -> None: ...

    table = build_table_definitions(declaration or daily_table(), library=lake.library(), env={})
    job = dg.Definitions.merge(table, dg.Definitions(assets=[behind])).resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance,
        tags={**({"dagster/partition": partition} if partition else {}), **(tags or {})},
        run_config={"ops": {"analytics__orders": {"config": dict(config or {})}}},
        raise_on_error=False,
    )


def materializations(result: dg.ExecuteInProcessResult) -> list[dg.AssetMaterialization]:
    events = [e for e in result.get_asset_materialization_events() if e.asset_key == KEY]
    return [e.step_materialization_data.materialization for e in events]


def observations(instance: dg.DagsterInstance) -> list[dg.AssetObservation]:
    records = instance.fetch_observations(KEY, limit=10).records
    return [r.asset_observation for r in records if r.asset_observation]


def checks(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {e.check_name: e.passed for e in result.get_asset_check_evaluations()}


def said(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    """Everything in the log of the run."""
    return "\n".join(entry.user_message for entry in instance.all_logs(result.run_id))


def stored_checks(instance: dg.DagsterInstance, check: str) -> dict[str | None, bool]:
    """By partition, newest evaluation first."""
    history = instance.event_log_storage.get_asset_check_execution_history(dg.AssetCheckKey(KEY, check), limit=10)
    return {record.partition: record.evaluation.passed for record in reversed(history) if record.evaluation}


def tags_of(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> Mapping[str, str]:
    found = instance.get_run_by_id(result.run_id)
    assert found
    return found.tags


def test_columns_that_files_added_are_in_the_schema_of_the_materialization(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.land(DAY)
    (made,) = materializations(run(lake, instance))
    assert "dagster/column_schema" not in made.metadata, "the asset's own schema is the table's"
    lake.land(DAY, "b.csv")
    lake.added_columns = ("extra",)
    (made,) = materializations(run(lake, instance))
    schema = made.metadata["dagster/column_schema"]
    assert isinstance(schema, dg.TableSchemaMetadataValue)
    columns = schema.value.columns
    assert [c.name for c in columns][:1] == [daily_table().columns[0].name] and columns[-2].name == "_ingested_at"
    assert (columns[-1].name, columns[-1].type) == ("extra", "string")


def test_a_partition_reads_its_own_date_and_shows_what_was_done(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land(DAY)
    lake.land("2024-01-03")
    result = run(lake, instance)

    assert result.success
    assert [r.window for r in lake.requests] == [Window(date(2024, 1, 2), date(2024, 1, 2))]
    (made,) = materializations(result)
    assert made.metadata["merge_share"].value == 0.0
    values = {key: value.value for key, value in made.metadata.items()}
    assert made.partition == DAY
    assert values["rows_inserted"] == 5 and values["objects_read"] == 1
    assert values["bookmark_version"] == 1 and values["snapshot_id"] == "1001"
    assert values["dagster/row_count"] == 5 and values[STATE] == "committed"
    assert values["batches"] == ["batch1"]
    assert f"| {DAY} | 1 | 5 |" in str(values["dates"])
    assert made.tags is not None and made.tags["dagster/data_version"] == "1001"
    assert checks(result) == dict.fromkeys(
        ("counts_reconcile", "keys_unique", "gates", "objects_complete", "late_arrivals", "freshness"), True
    )


def test_checks_recount_the_snapshot_of_their_own_run_and_carry_the_partition(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.land(DAY)
    result = run(lake, instance)

    assert set(lake.recounts) == {(1001, date.fromisoformat(DAY))}
    assert {e.partition for e in result.get_asset_check_evaluations()} == {DAY}


def test_c07_a_good_partition_does_not_clear_the_failed_check_of_another(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.land(DAY)
    lake.missing_rows = 1
    assert not run(lake, instance).success
    lake.missing_rows = 0
    lake.land("2024-01-03")
    assert run(lake, instance, "2024-01-03").success

    assert stored_checks(instance, "counts_reconcile") == {DAY: False, "2024-01-03": True}


def test_c07_where_ranges_are_one_run_each_check_speaks_of_the_whole_table(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    declaration = daily_table(backfill="range")
    lake.land(DAY)
    lake.land("2024-01-03")
    assert run(lake, instance, declaration=declaration).success
    complete = stored_checks(instance, "objects_complete")
    assert complete == {None: False}, "the other date is unseen"

    assert run(lake, instance, "2024-01-03", declaration=declaration).success
    assert stored_checks(instance, "objects_complete") == {None: True}


def test_nothing_to_do_triggers_nothing_and_keeps_partition_and_checks_green(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.land(DAY)
    assert "behind" in {
        e.asset_key.to_user_string() for e in run(lake, instance).get_asset_materialization_events() if e.asset_key
    }
    again = run(lake, instance)

    assert again.success
    assert again.get_asset_materialization_events() == []
    assert [o.metadata[STATE].value for o in observations(instance)] == ["nothing_to_do"]
    assert set(checks(again).values()) == {True} and len(checks(again)) == 6
    assert instance.get_materialized_partitions(KEY) == {DAY}


def test_a_backfill_materializes_a_day_with_nothing_to_do(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land(DAY)
    run(lake, instance)
    (made,) = materializations(run(lake, instance, tags={BACKFILL: "b"}))

    assert made.partition == DAY and made.metadata[STATE].value == "nothing_to_do"


def test_nothing_to_do_still_fails_when_a_blocking_check_does(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land(DAY)
    run(lake, instance)
    lake.missing_rows = 1
    again = run(lake, instance)

    assert not again.success
    assert stored_checks(instance, "counts_reconcile") == {DAY: False}
    assert tags_of(instance, again)[MAX_RETRIES] == "0"


def test_d17_an_empty_day_is_a_success_with_zero_rows(lake: Lake, instance: dg.DagsterInstance) -> None:
    result = run(lake, instance)

    (made,) = materializations(result)
    assert result.success
    assert made.metadata["rows_read"].value == 0 and made.metadata["bookmark_version"].value == 0
    evaluation = next(e for e in result.get_asset_check_evaluations() if e.check_name == "counts_reconcile")
    assert evaluation.passed and "0 = 0" in str(evaluation.description)
    assert run(lake, instance).get_asset_materialization_events() == []


def test_a_day_that_is_not_ready_does_not_turn_green(lake: Lake, instance: dg.DagsterInstance) -> None:
    source = {"uri": "s3://landing/in/", "partition": "day=%Y-%m-%d", "format": {"type": "csv"}}
    waiting = daily_table(source={**source, "ready": {"objects": 2}})
    lake.land(DAY)
    result = run(lake, instance, declaration=waiting)
    assert result.success and materializations(result) == []
    assert stored_checks(instance, "objects_complete") == {DAY: False}
    lake.land(DAY, "b.csv")
    assert len(materializations(run(lake, instance, declaration=waiting))) == 1


def test_a_day_that_the_command_line_loaded_is_caught_up_with(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land(DAY)
    lake.load()

    assert [m.partition for m in materializations(run(lake, instance))] == [DAY]


@pytest.mark.parametrize("exit_code", [1, 2, 70])
def test_o11_a_refused_load_is_never_retried(lake: Lake, instance: dg.DagsterInstance, exit_code: int) -> None:
    gate = GateResult("max_rejected_ratio", False, 0.2, 0.0, "2 of 10 rows")
    lake.fail = failed(daily_table(), State.BLOCKED, exit_code, gates=(gate,))
    result = run(lake, instance)

    assert not result.success and len(lake.requests) == 1
    tags = tags_of(instance, result)
    assert tags[MAX_RETRIES] == "0" and tags[REFUSED] == "true" and tags[STATE] == "blocked"
    assert tags["dagster/will_retry"] == "false"
    assert instance.get_materialized_partitions(KEY) == set()
    (event,) = [e for e in result.all_node_events if e.is_step_failure and e.node_name == "analytics__orders"]
    text = str(event.step_failure_data.user_failure_data)
    for part in ("it went wrong: value=1", "next: lakehouse diagnose", "gate max_rejected_ratio: value=0.2 limit=0.0"):
        assert part in text


def test_a_failed_run_carries_its_diagnosis(lake: Lake, instance: dg.DagsterInstance) -> None:
    def failure_of(result: dg.ExecuteInProcessResult) -> Any:
        (event,) = [e for e in result.all_node_events if e.is_step_failure and e.node_name == "analytics__orders"]
        return event.step_failure_data.user_failure_data

    lake.fail = failed(daily_table(), State.BLOCKED, 1)
    told = failure_of(run(lake, instance))
    for part in ("diagnosis of source orders: blocked: gate max_rejected_ratio", "lease: free", "next: lakehouse gate"):
        assert part in str(told.description)
    assert told.metadata["next"].value == "lakehouse gate accept"
    assert told.metadata["evidence"].value == {"orders": {"lease": "free"}}
    assert "| orders | blocked |" in str(told.metadata["diagnosis"].value)
    lake.undiagnosed = Unavailable("503 slow down")
    told = failure_of(run(lake, instance))
    assert "it went wrong" in str(told.description) and "not diagnosed: 503 slow down" in str(told.description)


def test_a_name_from_a_bucket_forges_no_line_of_a_failed_run(lake: Lake, instance: dg.DagsterInstance) -> None:
    forged = "s3://landing/a\x1b[2J\nnext: rm -rf /"
    lake.fail = replace(failed(daily_table(), State.BLOCKED, 1), error=f"broken: uri={forged}", warnings=(forged,))
    lake.undiagnosed = Unavailable(f"503 slow down: uri={forged}")
    (event,) = [
        e for e in run(lake, instance).all_node_events if e.is_step_failure and e.node_name == "analytics__orders"
    ]
    told = event.step_failure_data.user_failure_data
    texts = [str(told.description), *(str(value.value) for value in told.metadata.values())]
    assert sum(r"a\x1b[2J\nnext: rm -rf /" in text for text in texts) == 2, "description and error"
    assert not any("\x1b" in text or "\nnext: rm" in text for text in texts)


def test_a_terminated_run_tells_its_diagnosis_in_its_log(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.stop = KeyboardInterrupt()
    assert not run(lake, instance).success
    (told,) = instance.get_run_records()
    entries = instance.all_logs(told.dagster_run.run_id)
    (text,) = [entry.user_message for entry in entries if "diagnosis" in entry.user_message]
    assert "diagnosis of source orders: blocked" in text and "next: lakehouse gate accept" in text


def test_a_load_that_may_succeed_later_is_retried_in_the_run(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.fail = failed(daily_table(), State.CONFLICT, 3)
    result = run(lake, instance)

    assert not result.success
    assert len(lake.requests) == 1 + failure.MOST_RETRIES
    tags = tags_of(instance, result)
    assert REFUSED not in tags and MAX_RETRIES not in tags


def test_an_unreachable_service_is_retried_and_missing_configuration_is_not(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.broken = Unavailable("catalog=default does not answer")
    later = run(lake, instance)
    assert sum(e.event_type_value == "STEP_RESTARTED" for e in later.all_events) == failure.MOST_RETRIES
    lake.broken = ConfigurationError("no credentials", next="export AWS_PROFILE=…")
    refused = run(lake, instance)

    assert not any(e.event_type_value == "STEP_RESTARTED" for e in refused.all_events)
    assert tags_of(instance, refused)[REFUSED] == "true"


def test_a_load_that_quarantined_an_object_succeeds(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.fail = failed(daily_table(), State.COMMITTED, 1)
    assert materializations(run(lake, instance))


def test_o12_a_retry_after_the_commit_reads_nothing(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land(DAY)
    lake.missing_rows = 1
    assert not run(lake, instance).success
    lake.missing_rows = 0
    again = run(lake, instance)

    assert again.success
    assert observations(instance)[0].metadata["objects_read"].value == 0
    assert observations(instance)[0].metadata["rows_inserted"].value == 0


def test_o03_c03_a_range_is_one_load_with_the_counts_of_each_date(lake: Lake, instance: dg.DagsterInstance) -> None:
    for day, names in {"2024-01-02": "ab", "2024-01-04": "c"}.items():
        for name in names:
            lake.land(day, f"{name}.csv")
    asked = {
        "dagster/asset_partition_range_start": "2024-01-02",
        "dagster/asset_partition_range_end": "2024-01-04",
    }
    result = run(lake, instance, None, tags=asked, declaration=daily_table(backfill="range"))

    assert result.success and len(lake.requests) == 1
    assert lake.requests[0].window == Window(date.fromisoformat("2024-01-02"), date.fromisoformat("2024-01-04"))
    rows = {m.partition: m.metadata["rows_inserted"].value for m in materializations(result)}
    assert rows == {"2024-01-02": 10, "2024-01-03": 0, "2024-01-04": 5}
    assert {m.metadata["bookmark_version"].value for m in materializations(result)} == {1}
    assert checks(result) and set(checks(result).values()) == {True}
    assert {e.partition for e in result.get_asset_check_evaluations()} == {None}
    assert set(lake.recounts) == {(1001, None)}


def test_a_range_with_nothing_to_do_observes_each_date(lake: Lake, instance: dg.DagsterInstance) -> None:
    asked = {
        "dagster/asset_partition_range_start": "2024-01-02",
        "dagster/asset_partition_range_end": "2024-01-03",
    }
    declaration = daily_table(backfill="range")
    assert len(materializations(run(lake, instance, None, tags=asked, declaration=declaration))) == 2
    again = run(lake, instance, None, tags=asked, declaration=declaration)

    assert again.success and again.get_asset_materialization_events() == []
    assert {o.partition for o in observations(instance)} == {"2024-01-02", "2024-01-03"}


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({}, Mode.INCREMENTAL),
        ({"mode": "full"}, Mode.FULL),
        ({"mode": "job-bookmark-disable"}, Mode.FULL),
        ({"mode": "job-bookmark-pause"}, Mode.NO_ADVANCE),
    ],
)
def test_the_launchpad_chooses_the_mode(
    lake: Lake, instance: dg.DagsterInstance, config: dict[str, str], mode: Mode
) -> None:
    run(lake, instance, config=config)
    assert [r.mode for r in lake.requests] == [mode]


def test_the_launchpad_asks_for_a_range_of_batches(lake: Lake, instance: dg.DagsterInstance) -> None:
    run(lake, instance, config={"mode": "no-advance", "from_batch": "2", "to_batch": "ab12"})
    assert [(r.from_batch, r.to_batch) for r in lake.requests] == [("2", "ab12")]


def test_runs_of_the_schedule_say_so(lake: Lake, instance: dg.DagsterInstance) -> None:
    run(lake, instance)
    run(lake, instance, tags={TRIGGER: SCHEDULE})
    assert [r.scheduled for r in lake.requests] == [False, True]


def test_a_table_that_was_set_back_is_told(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land(DAY)
    run(lake, instance)
    lake.bookmark = type(lake.bookmark)()
    lake.objects.clear()
    again = run(lake, instance)

    assert "Dagster remembers bookmark_version=1, the table stands at 0" in said(instance, again)


def test_an_undated_source_has_no_partitions(lake: Lake, instance: dg.DagsterInstance) -> None:
    undated = daily_table(
        source={"uri": "s3://landing/in/", "partition": None, "files": "**.csv", "format": {"type": "csv"}}
    )
    lake.land(DAY)
    result = run(lake, instance, None, declaration=undated)

    assert result.success and [m.partition for m in materializations(result)] == [None]
    assert lake.requests[0].window == Window()
    assert run(lake, instance, None, declaration=undated).get_asset_materialization_events() == []


def test_progress_is_bounded(lake: Lake) -> None:
    lines: list[str] = []
    clock = iter([0.0, 1.0, 2.0, 11.0])
    log = ProgressLog(lines.append, lambda: next(clock))
    for step, done in (("stage", 1), ("stage", 2), ("merge", 1), ("stage", 3)):
        log(Progress(step, done, 4, 10 * done, 3.0))

    assert lines == [
        "stage 1/4, 10 rows, about 3 s left",
        "merge 1/4, 10 rows, about 3 s left",
        "stage 3/4, 30 rows, about 3 s left",
    ]


def test_progress_reaches_the_log_of_the_run(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.progress = [Progress("stage", 1, 2, 10)]
    assert "stage 1/2, 10 rows" in said(instance, run(lake, instance))


def test_a_blocked_load_turns_the_gates_check_red_until_the_next_load(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land(DAY)
    gate = GateResult("max_rejected_ratio", False, 0.2, 0.0, "2 of 10 rows")
    blocked = failed(daily_table(), State.BLOCKED, 1, gates=(gate,))
    for fail, passed in ((replace(blocked), False), (None, True)):
        lake.fail = fail
        run(lake, instance)
        definitions = build_table_definitions(daily_table(), library=lake.library(), env={})
        (outcome,) = run_checks(
            definitions, selection="analytics.orders:gates", partition=date.fromisoformat(DAY), instance=instance
        )
        assert outcome.passed is passed
