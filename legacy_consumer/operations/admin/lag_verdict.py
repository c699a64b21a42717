"""Judges from several samples of a partition whether its lag needs an operator. No I/O, no clock.

Lag alone says little: a group may consume a burst of 10,000 messages in a second, and 3 messages may wait since
yesterday. A window of samples shows whether the group's offset moves. The verdicts are named as in Burrow:

    ok        caught up, or the offset moves
    warning   the offset moves, but the lag grows from commit to commit, by a twentieth of what is written or more
    stall     a member owns the partition and messages wait, but the offset stays where it is
    stop      messages wait, and the partition has no owner or no commits
    rewind    an offset was committed that is lower than the one before
    error     the offset cannot be right: it lies outside the log, is of an earlier topic, or cannot be read
    unknown   no broker reports the end of the log, or nothing is committed while the log holds messages

Two things differ from Burrow, which reads a topic of commits. First, a consumer of a ZooKeeper group does not write an
offset that did not change. A missing commit is therefore not yet a stop: a live owner that commits nothing while
messages wait is stalled. Second, the window is filled by samples, not by commits. Lags are therefore compared at the
first sample after each commit; between commits a lag only grows. As in Burrow, a partition that was caught up once
within the window is ok, unless it has no owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple, TypeAlias


class Kind(Enum):
    """The verdicts, from the best to the worst."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    REWIND = "rewind"
    STALL = "stall"
    STOP = "stop"
    ERROR = "error"

    @property
    def severity(self) -> int:
        """The rank of the verdict; 0 for the best."""
        return _SEVERITY[self]


_SEVERITY = {kind: number for number, kind in enumerate(Kind)}
_BAD = frozenset({Kind.REWIND, Kind.STALL, Kind.STOP, Kind.ERROR})


class Sample(NamedTuple):
    """One look at one partition; a tuple, because an exporter keeps a million of them.

    seen_at_ms: the time of the look, by the monotonic clock. offset, committed_at_ms: the committed offset and when it
    was written, by ZooKeeper's clock; None if there is none. lag: None if no broker reported the log's end.
    topic_czxid: the zxid of the topic's creation; None if there was no topic.
    """

    seen_at_ms: int
    offset: int | None
    lag: int | None
    committed_at_ms: int | None
    topic_czxid: int | None = None


Window: TypeAlias = tuple[Sample, ...]
"""The samples of a partition, the oldest first."""


@dataclass(frozen=True, slots=True)
class Judging:
    """The settings of a verdict.

    size: the most samples kept. span_ms: older samples are dropped. patience_ms: how long an offset may stay the same
    while messages wait. Set it longer than the members' auto.commit.interval.ms, which is a minute by default.
    """

    size: int = 10
    span_ms: int = 600_000
    patience_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """kind, and the reason in words. complete: the share of patience_ms that the window covers, up to 1."""

    kind: Kind
    reason: str
    complete: float = 1.0


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on a group: that on its worst partition, but error for stop, stall and rewind, as in Burrow.

    kinds: {verdict: the number of partitions that have it}.
    """

    kind: Kind
    kinds: dict[Kind, int] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """The number of partitions of each verdict except ok."""
        bad = sorted((kind for kind in self.kinds if kind is not Kind.OK), key=lambda kind: -kind.severity)
        return ", ".join(f"{self.kinds[kind]} {kind.value}" for kind in bad)


DEFAULT = Judging()


def extend(window: Window, sample: Sample, judging: Judging = DEFAULT) -> Window:
    """Return the window with one more sample, within its bounds; unchanged if the sample is not newer than the last.

    The first sample of a topic that was created again starts a new window: offsets of two logs cannot be compared. Of
    samples that saw the same, only the first and the last are kept, so a quiet partition costs two samples. Samples
    that come faster than span_ms / size replace each other, unless a commit lies between them.
    """
    if window and sample.seen_at_ms <= window[-1].seen_at_ms:
        return window
    if window and sample.topic_czxid != window[-1].topic_czxid:
        return (sample,)
    kept = list(window)
    if len(kept) >= 2 and _is_between(kept[-2], kept[-1], sample, judging):
        kept.pop()
    kept.append(sample)
    begin_ms = sample.seen_at_ms - judging.span_ms
    while len(kept) > judging.size or kept[0].seen_at_ms < begin_ms:
        first = kept.pop(0)
        if kept[0].seen_at_ms > begin_ms and _saw_the_same(first, kept[0]) and len(kept) < judging.size:
            # the two samples are equal, so the partition was in the same state when the window begins
            kept.insert(0, first._replace(seen_at_ms=begin_ms))
    return tuple(kept)


def _is_between(before: Sample, middle: Sample, after: Sample, judging: Judging) -> bool:
    """Return whether the two other samples show all that the middle one shows."""
    if _commit_of(before) != _commit_of(middle) or _commit_of(middle) != _commit_of(after):
        return False
    if (before.lag or 0) > 0 >= (middle.lag or 0):
        return False  # the middle sample shows that the group had caught up
    same = _saw_the_same(before, middle) and _saw_the_same(middle, after)
    return same or after.seen_at_ms - before.seen_at_ms < judging.span_ms // judging.size


def _saw_the_same(one: Sample, other: Sample) -> bool:
    return _commit_of(one) == _commit_of(other) and one.lag == other.lag


def judge(
    window: Window,
    *,
    has_owner: bool | None = None,
    problem: str | None = None,
    in_log: int | None = None,
    judging: Judging = DEFAULT,
) -> Verdict:
    """Return the verdict on a partition, as of the newest sample.

    has_owner: whether a live member owns it now; None if unknown. problem: why its offset cannot be right.
    in_log: the number of messages in its log, None if unknown; used only if nothing is committed.
    """
    if problem is not None:
        return Verdict(Kind.ERROR, problem)
    if not window:
        return Verdict(Kind.UNKNOWN, "not measured yet", 0.0)
    now = window[-1]
    complete = min(1.0, (now.seen_at_ms - window[0].seen_at_ms) / max(1, judging.patience_ms))
    if now.offset is None and in_log:
        if has_owner is False:
            reason = f"nothing is committed, the log holds {in_log} messages, and no member owns the partition"
            return Verdict(Kind.STOP, reason, complete)
        reason = f"nothing is committed yet, and the log holds {in_log} messages"
        return Verdict(Kind.UNKNOWN, reason, complete)
    if now.offset is None and in_log == 0:
        return Verdict(Kind.OK, "nothing was committed yet, and the log is empty", complete)
    if now.offset is None or now.lag is None:
        return Verdict(Kind.UNKNOWN, "no broker reports the end of the log", complete)
    if now.lag < 0:
        return Verdict(Kind.ERROR, f"offset {now.offset} lies {-now.lag} beyond the end of the log", complete)
    if now.lag == 0:
        return Verdict(Kind.OK, "caught up", complete)
    kind, reason = _judge_behind(window, has_owner, judging)
    return Verdict(kind, reason, complete)


def _judge_behind(window: Window, has_owner: bool | None, judging: Judging) -> tuple[Kind, str]:
    now = window[-1]
    if has_owner is False:
        return Kind.STOP, f"{now.lag} messages wait and no member owns the partition"
    still = _still_since(window)
    waited_ms = now.seen_at_ms - still[0].seen_at_ms
    patience_ms = max(judging.patience_ms, _slowest_commit_ms(window))
    if any(sample.lag == 0 for sample in window):
        if len(still) > 1 and waited_ms > patience_ms and has_owner is None:
            return Kind.STOP, f"{now.lag} messages wait and nothing was committed for {_seconds(waited_ms)}"
        if waited_ms <= patience_ms:
            return Kind.OK, "it was caught up within the window"
    commits = _first_seen(window)
    back = next(((a, b) for a, b in pairwise(commits) if _went_back(a, b)), None)
    if back is not None:
        return Kind.REWIND, f"the committed offset went back from {back[0].offset} to {back[1].offset}"
    if len(still) > 1 and waited_ms > patience_ms:
        again = still[0].committed_at_ms != now.committed_at_ms
        what = f"the offset stays at {now.offset} for {_seconds(waited_ms)} while {now.lag} messages wait"
        if again:
            return Kind.STALL, f"{what}, though it is committed again and again"
        if has_owner:
            return Kind.STALL, f"{what}, though a member owns the partition"
        return Kind.STOP, f"{what}, and nothing is committed"
    if _does_not_fall(window, commits, judging):
        return Kind.WARNING, f"the lag grew from {commits[0].lag} to {now.lag} and never fell with a commit"
    if len(window) == 1:
        return Kind.OK, "measured once: only a second measurement shows whether the offset moves"
    return Kind.OK, "the offset moves"


def judge_group(verdicts: Iterable[Verdict]) -> GroupVerdict:
    """Return the verdict on a group, from the verdicts on its partitions."""
    kinds = dict(Counter(verdict.kind for verdict in verdicts))
    worst = max(kinds, key=lambda kind: kind.severity, default=Kind.OK)
    return GroupVerdict(Kind.ERROR if worst in _BAD else worst, kinds)


def _commit_of(sample: Sample) -> tuple[int | None, int | None]:
    return sample.offset, sample.committed_at_ms


def _still_since(window: Window) -> Sequence[Sample]:
    """Return the last samples in which the offset was the same as now and messages waited."""
    start = len(window) - 1
    offset = window[-1].offset
    while start > 0 and window[start - 1].offset == offset and (window[start - 1].lag or 0) > 0:
        start -= 1
    return window[start:]


def _first_seen(window: Window) -> Sequence[Sample]:
    """Return one sample for each commit in the window: the first that saw the commit and knew the lag."""
    found: list[Sample] = []
    for sample in window:
        if sample.offset is None or sample.lag is None:
            continue
        if not found or _commit_of(found[-1]) != _commit_of(sample):
            found.append(sample)
    return found


def _slowest_commit_ms(window: Window) -> int:
    """Return the longest time between two commits. A member that commits every 5 minutes has not stopped after 2."""
    times = sorted({sample.committed_at_ms for sample in window if sample.committed_at_ms is not None})
    return max((b - a for a, b in pairwise(times)), default=0)


def _went_back(before: Sample, after: Sample) -> bool:
    return before.offset is not None and after.offset is not None and after.offset < before.offset


_NOTABLE = 0.05
"""The share of the written messages by which a lag must grow: the number in flight differs from commit to commit."""


def _does_not_fall(window: Window, commits: Sequence[Sample], judging: Judging) -> bool:
    """Return whether three or more commits, over at least patience_ms, show a growing lag that never fell."""
    if len(commits) < 3 or commits[-1].seen_at_ms - commits[0].seen_at_ms < judging.patience_ms:
        return False
    lags = _lags_when_committed(window, commits)
    written = (commits[-1].offset or 0) + lags[-1] - (commits[0].offset or 0) - lags[0]
    return lags[-1] - lags[0] > max(1, written * _NOTABLE) and all(a <= b for a, b in pairwise(lags))


def _lags_when_committed(window: Window, commits: Sequence[Sample]) -> list[float]:
    """Return the lag at the time of each commit, estimated from the log's growth between two samples.

    The time from a commit to the first sample after it varies. Without the estimate, messages that are written in
    between would count as lag, and a group that keeps up would seem to fall behind for many commits in a row.
    The smallest time from a commit to its sample is taken as the difference of the two clocks. It includes the delay of
    that sample, which shifts all lags in the same way.
    """
    apart_ms = min(
        (sample.seen_at_ms - sample.committed_at_ms for sample in commits if sample.committed_at_ms is not None),
        default=0,
    )
    ends = [
        (sample.seen_at_ms, sample.offset + sample.lag)
        for sample in window
        if sample.offset is not None and sample.lag is not None
    ]
    lags = []
    for sample in commits:
        lag = float(sample.lag or 0)
        if sample.committed_at_ms is not None and sample.offset is not None and len(ends) > 1:
            at_ms = sample.committed_at_ms + apart_ms
            before, after = next((pair for pair in pairwise(ends) if at_ms <= pair[1][0]), ends[-2:])
            grew = (after[1] - before[1]) / (after[0] - before[0])
            lag = min(lag, max(0.0, after[1] - grew * (after[0] - at_ms) - sample.offset))
        lags.append(lag)
    return lags


def _seconds(ms: int) -> str:
    return f"{ms // 1000} s"
