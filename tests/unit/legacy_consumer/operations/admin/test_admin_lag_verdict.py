"""The verdict on a partition, from a window of samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_consumer.operations.admin.lag_verdict import Judging, Kind, Sample, Verdict, extend, judge, judge_group

MINUTE = 60_000
QUICK = Judging(size=10, span_ms=10 * MINUTE, patience_ms=2 * MINUTE)


def window_of(*looks, every_ms=MINUTE, judging=QUICK):
    """Return a window of samples. looks: (offset, lag) or (offset, lag, minute of the commit).

    Without a minute, an offset counts as committed at the first look that shows it.
    """
    window, committed_at = (), {}
    for number, (offset, lag, *commit) in enumerate(looks):
        seen_at = number * every_ms
        at = commit[0] * MINUTE if commit else committed_at.setdefault(offset, seen_at)
        window = extend(window, Sample(seen_at, offset, lag, at), judging)
    return window


def kind_of(*looks, **options):
    return judge(window_of(*looks, **options), has_owner=True, judging=QUICK).kind


def test_a_group_that_has_caught_up_is_ok_after_any_history():
    assert kind_of((50, 3), (10, 40), (50, 0)) is Kind.OK


def test_a_group_that_moves_and_whose_lag_falls_is_ok():
    assert kind_of((10, 90), (20, 80), (30, 70), (40, 60)) is Kind.OK


def test_a_lag_that_grows_with_each_commit_is_a_warning():
    assert kind_of((10, 10), (20, 20), (30, 30), (40, 40)) is Kind.WARNING


def test_a_lag_that_fell_once_is_no_warning():
    assert kind_of((10, 10), (20, 20), (30, 15), (40, 40)) is Kind.OK


@pytest.mark.parametrize("every_s", [29, 31, 59, 61, 119])
@pytest.mark.parametrize(("behind", "kind"), [(0, Kind.OK), (0.1, Kind.WARNING)])
@pytest.mark.parametrize("apart_ms", [0, 10**12, -(10**12)])
def test_looks_that_come_later_after_each_commit_make_no_lag_grow(every_s, behind, kind, apart_ms):
    """Producers write ten messages a second; at each commit, the group has consumed all of them, or all but a share.

    ZooKeeper's clock may differ by any time.
    """
    window, verdicts = (), []
    for at_s in range(0, 3600, 30):
        committed_at = at_s // every_s * every_s
        offset = int(committed_at * 10 * (1 - behind))
        window = extend(window, Sample(at_s * 1000, offset, at_s * 10 - offset, committed_at * 1000 + apart_ms), QUICK)
        verdicts.append(judge(window, has_owner=True, judging=QUICK).kind)
    assert set(verdicts[20:]) == {kind}


def test_an_offset_that_stands_still_under_a_live_owner_is_stalled():
    assert kind_of((10, 5), (10, 6), (10, 7), (10, 8)) is Kind.STALL


def test_an_offset_committed_again_and_again_is_stalled():
    verdict = judge(window_of((10, 5, 0), (10, 6, 1), (10, 7, 2), (10, 8, 3)), judging=QUICK)
    assert verdict.kind is Kind.STALL
    assert "again and again" in verdict.reason


def test_an_offset_that_stands_still_is_stopped_where_no_owner_is_known():
    assert judge(window_of((10, 5), (10, 6), (10, 7), (10, 8)), judging=QUICK).kind is Kind.STOP


def test_waiting_messages_without_an_owner_are_a_stop_at_the_first_measurement():
    verdict = judge(window_of((10, 5)), has_owner=False, judging=QUICK)
    assert verdict == Verdict(Kind.STOP, "5 messages wait and no member owns the partition", 0.0)


def test_a_group_that_waits_for_less_than_the_patience_is_not_stalled_yet():
    assert kind_of((10, 5), (10, 6), (10, 7)) is Kind.OK


def test_a_group_with_slow_commits_gets_the_time_between_its_commits():
    looks = [(10, 5, 0), (10, 5, 0), (10, 5, 0), (10, 5, 0), (20, 5, 4), (20, 5, 4), (20, 5, 4), (20, 5, 4)]
    assert kind_of(*looks) is Kind.OK
    assert kind_of(*looks, (20, 5, 4), (20, 5, 4)) is Kind.STALL


def test_an_offset_that_went_back_is_a_rewind():
    verdict = judge(window_of((50, 3), (10, 43)), has_owner=True, judging=QUICK)
    assert (verdict.kind, verdict.reason) == (Kind.REWIND, "the committed offset went back from 50 to 10")


def test_offsets_of_two_topics_of_one_name_are_not_compared():
    window = ()
    for seen_at, offset, lag, topic in [(0, 90, 10, 7), (1000, None, None, None), (2000, 5, 5, 9), (3000, 8, 2, 9)]:
        window = extend(window, Sample(seen_at, offset, lag, seen_at, topic), QUICK)
    assert [sample.offset for sample in window] == [5, 8]
    assert judge(window, has_owner=True, judging=QUICK).kind is Kind.OK


def test_a_group_that_had_caught_up_a_moment_ago_is_ok():
    assert kind_of((10, 0), (10, 5), (10, 6)) is Kind.OK


def test_a_group_that_had_caught_up_long_ago_is_stalled_all_the_same():
    assert kind_of((10, 0), (10, 5), (10, 5), (10, 5), (10, 5)) is Kind.STALL


def test_an_offset_beyond_the_log_is_an_error():
    assert kind_of((10, -2)) is Kind.ERROR


def test_an_unreadable_offset_is_an_error_with_its_reason():
    assert judge((), problem="holds b'x'") == Verdict(Kind.ERROR, "holds b'x'")


def test_without_the_end_of_the_log_nothing_is_known():
    assert kind_of((10, None)) is Kind.UNKNOWN


@pytest.mark.parametrize(("in_log", "kind"), [(0, Kind.OK), (5, Kind.UNKNOWN), (None, Kind.UNKNOWN)])
def test_where_nothing_is_committed_only_an_empty_log_is_well(in_log, kind):
    assert judge((Sample(0, None, None, None),), has_owner=True, in_log=in_log).kind is kind


@pytest.mark.parametrize(
    ("kinds", "whole"),
    [
        ([], Kind.OK),
        ([Kind.OK, Kind.WARNING], Kind.WARNING),
        ([Kind.OK, Kind.STALL], Kind.ERROR),
        ([Kind.UNKNOWN, Kind.OK], Kind.UNKNOWN),
        ([Kind.STOP, Kind.WARNING], Kind.ERROR),
    ],
)
def test_a_group_is_in_error_if_one_partition_is(kinds, whole):
    found = judge_group(Verdict(kind, "") for kind in kinds)
    assert found.kind is whole
    assert sum(found.kinds.values()) == len(kinds)


def test_a_group_says_how_many_partitions_are_unwell():
    kinds = [Kind.OK, Kind.STOP, Kind.STOP, Kind.WARNING]
    assert judge_group(Verdict(kind, "") for kind in kinds).reason == "2 stop, 1 warning"


samples = st.builds(
    Sample,
    seen_at_ms=st.integers(0, 30 * MINUTE),
    offset=st.none() | st.integers(0, 20),
    lag=st.none() | st.integers(-2, 20),
    committed_at_ms=st.none() | st.integers(0, 30 * MINUTE),
)


def windows(draw_samples):
    window = ()
    for sample in draw_samples:
        window = extend(window, sample, QUICK)
    return window


@given(st.lists(samples, max_size=60))
def test_a_window_is_bounded_in_number_and_time_and_ends_with_the_newest(looks):
    window = windows(looks)
    assert len(window) <= QUICK.size
    times = [sample.seen_at_ms for sample in window]
    assert times == sorted(set(times))
    if looks:
        assert times[-1] == max(look.seen_at_ms for look in looks)
        assert times[-1] - times[0] <= QUICK.span_ms


@given(st.lists(samples, max_size=60), st.sampled_from([True, False, None]))
def test_every_window_has_a_verdict_that_its_newest_look_allows(looks, has_owner):
    window = windows(looks)
    verdict = judge(window, has_owner=has_owner, judging=QUICK)
    assert verdict.reason
    assert 0 <= verdict.complete <= 1
    if not window or window[-1].offset is None:
        assert verdict.kind in (Kind.UNKNOWN, Kind.OK)
    elif window[-1].lag is None:
        assert verdict.kind is Kind.UNKNOWN
    elif window[-1].lag < 0:
        assert verdict.kind is Kind.ERROR
    elif window[-1].lag == 0:
        assert verdict.kind is Kind.OK
    else:
        assert verdict.kind not in (Kind.UNKNOWN, Kind.ERROR)
        assert (verdict.kind is Kind.STOP) or has_owner is not False


@given(st.integers(1, 1000), st.integers(2, 400), st.booleans())
def test_a_group_that_stands_still_long_enough_is_never_ok(lag, looks, has_owner):
    window = windows(Sample(n * 10_000, 5, lag, 0) for n in range(looks))
    verdict = judge(window, has_owner=has_owner, judging=QUICK)
    is_long = (looks - 1) * 10_000 > QUICK.patience_ms
    assert (verdict.kind is Kind.OK) == (has_owner and not is_long)


@given(st.integers(1, 60), st.integers(0, 9))
def test_the_interval_of_measurements_does_not_change_the_verdict(every_s, steps_back):
    """A consumer that commits every minute and catches up is ok, with a sample a second or a sample a minute."""
    window, minutes = (), 12
    for second in range(0, minutes * 60, every_s):
        minute = second // 60
        window = extend(
            window,
            Sample(second * 1000, minute * 100, 2000 - minute * (10 + steps_back) + second % 60, minute * MINUTE),
            QUICK,
        )
    assert judge(window, has_owner=True, judging=QUICK).kind is Kind.OK


def test_a_quiet_partition_costs_two_samples():
    window = windows(Sample(n * 1000, 5, 0, 0) for n in range(500))
    assert len(window) == 2
