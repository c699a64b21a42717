"""The proof counts flights, not offsets, and finds every kind of wrong record."""

from dataclasses import dataclass

import pytest

from legacy_consumer.sandbox.quickstart.errors import QuickstartError
from legacy_consumer.sandbox.quickstart.proof import check_deliveries
from legacy_consumer.sandbox.quickstart.record import Record, Run, decode_record, encode_batch

LOG = {0: (0, 3), 1: (0, 2)}
"""{partition: (begin, end)} of the log: flights 0 1 2 in partition 0, flights 3 4 in partition 1."""
ALL_OF_0 = Run(0, 0, (0, 1, 2))
ALL_OF_1 = Run(1, 0, (3, 4))


def record(*runs):
    return Record(tuple(runs))


@dataclass
class Flight:
    number: int
    on: int
    at: int

    def partition(self):
        return self.on

    def offset(self):
        return self.at

    def value(self):
        return b"%d,2013,1,1,UA" % self.number


def test_every_flight_once_is_all_delivered_and_nothing_else():
    verdict = check_deliveries({"a": record(ALL_OF_0), "b": record(ALL_OF_1)}, 5, LOG)
    assert (verdict.delivered, verdict.lost, verdict.duplicated, verdict.deliveries) == (5, 0, 0, 5)
    assert verdict.contradictions == ()
    assert verdict.by_member == {"a": 3, "b": 2}


def test_a_flight_in_no_record_is_lost():
    verdict = check_deliveries({"a": record(Run(0, 0, (0, 1)), ALL_OF_1)}, 5, LOG)
    assert (verdict.delivered, verdict.lost) == (4, 1)


def test_nothing_recorded_is_everything_lost():
    assert check_deliveries({"a": record()}, 5, LOG).lost == 5


def test_flights_that_the_killed_member_had_processed_are_its_duplicates():
    verdict = check_deliveries({"a": record(ALL_OF_0), "b": record(Run(0, 1, (1, 2)), ALL_OF_1)}, 5, LOG, killed="a")
    assert (verdict.duplicated, verdict.duplicated_by_kill, verdict.deliveries, verdict.lost) == (2, 2, 7, 0)


def test_duplicates_among_the_others_are_not_put_down_to_the_kill():
    runs = {"a": record(ALL_OF_0), "b": record(ALL_OF_1), "c": record(ALL_OF_1)}
    verdict = check_deliveries(runs, 5, LOG, killed="a")
    assert (verdict.duplicated, verdict.duplicated_by_kill) == (2, 0)


def test_a_flight_delivered_three_times_is_one_duplicated_flight():
    verdict = check_deliveries({name: record(ALL_OF_0, ALL_OF_1) for name in "abc"}, 5, LOG)
    assert (verdict.duplicated, verdict.deliveries) == (5, 15)


@pytest.mark.parametrize(
    ("runs", "complaint"),
    [
        ([ALL_OF_0, ALL_OF_1, Run(0, 1, (2,))], "flight 2 lies at partition 0 offset 2 and at partition 0 offset 1"),
        ([ALL_OF_0, Run(1, 0, (3,)), Run(0, 2, (4,))], "one place in the log gave two different flights"),
        ([ALL_OF_0, ALL_OF_1, Run(1, 1, (5,))], "received a flight 5 that was never produced"),
        ([ALL_OF_0, Run(1, 1, (3, 4))], "whose log has 0 to 2"),
        ([ALL_OF_0, Run(7, 0, (3, 4))], "of partition 7, whose log has 0 to 0"),
    ],
)
def test_records_that_cannot_be_true_are_found(runs, complaint):
    [found] = [c for c in check_deliveries({"a": record(*runs)}, 5, LOG).contradictions if complaint in c]
    assert found


def test_a_log_of_another_size_than_was_produced_is_found():
    verdict = check_deliveries({"a": record(ALL_OF_0, ALL_OF_1)}, 5, {0: (0, 3), 1: (0, 3)})
    assert verdict.contradictions == ("the log holds 6 messages, 5 were produced",)


def test_a_batch_becomes_one_line_and_comes_back_as_its_runs():
    batch = [Flight(0, 0, 7), Flight(3, 1, 0), Flight(1, 0, 8), Flight(2, 0, 11)]
    line = encode_batch(batch)
    assert line.count(b"\n") == 1
    assert decode_record("a", line + line).runs == (Run(0, 7, (0, 1)), Run(1, 0, (3,)), Run(0, 11, (2,))) * 2


def test_a_torn_last_line_counts_as_not_processed_wherever_it_was_torn():
    whole = encode_batch([Flight(0, 0, 0), Flight(1, 0, 1)])
    torn = encode_batch([Flight(12, 0, 2), Flight(13, 0, 3)])
    for length in range(1, len(torn)):
        decoded = decode_record("a", whole + torn[:length])
        assert decoded == Record((Run(0, 0, (0, 1)),), torn=True), length
    assert decode_record("a", whole + torn) == Record((Run(0, 0, (0, 1)), Run(0, 2, (12, 13))), torn=False)


def test_an_empty_record_tells_of_nothing():
    assert decode_record("a", b"") == Record((), torn=False)


@pytest.mark.parametrize("line", [b"garbage\n", b"[[0,1]]\n", b"{}x\n", b"[[0,1,5]]\n", b"\n"])
def test_an_unreadable_whole_line_ends_the_proof(line):
    with pytest.raises(QuickstartError, match="line 1 of the record of member-1 cannot be read"):
        decode_record("member-1", line)
