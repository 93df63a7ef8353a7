"""A signal counts whatever becomes of the exception that its handler raises."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import duckdb
import pyarrow as pa
import pytest

from lakehouse.errors import DataError, OutcomeUnknown
from lakehouse.stopping import noticing_stops, raise_if_stopped, stop_code, stopped, stops_first


def ask(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    with noticing_stops():
        assert not stopped(), "a new piece of work begins without"


def in_a_query() -> None:
    batch = pa.RecordBatch.from_pydict({"row": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        ask()
        yield batch

    con = duckdb.connect()
    con.register("source", pa.RecordBatchReader.from_batches(batch.schema, batches()))
    con.execute("select sum(row) from source").fetchall()


def in_a_reader_that_blames_the_file() -> None:
    try:
        ask()
    except BaseException as error:
        raise DataError("the file is broken") from error


@pytest.mark.parametrize("work", [in_a_query, in_a_reader_that_blames_the_file])
def test_an_exception_that_took_the_place_of_the_signals_own_is_no_error_of_the_work(work: Callable[[], None]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), noticing_stops(), stops_first():
        work()
    assert stop_code() == 130


def test_a_signal_that_something_swallowed_is_raised_when_asked_for() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with noticing_stops(), noticing_stops():
        with pytest.raises(KeyboardInterrupt):
            ask(signal.SIGTERM)
        assert stopped() and stop_code() == 143
        with pytest.raises(KeyboardInterrupt):
            raise_if_stopped()


def test_an_unknown_outcome_weighs_more_and_without_a_signal_errors_stay_what_they_are() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with noticing_stops():
        with pytest.raises(DataError), stops_first():
            raise DataError("broken")
        with pytest.raises(KeyboardInterrupt):
            ask()
        with pytest.raises(OutcomeUnknown), stops_first():
            raise OutcomeUnknown("sent")


def test_handlers_are_those_of_before_and_one_that_put_another_there_has_it_stay() -> None:
    def once(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, once)
    with noticing_stops():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        ask(signal.SIGTERM)
        ask(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_signal_that_kills_goes_on_to_kill() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with noticing_stops():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
