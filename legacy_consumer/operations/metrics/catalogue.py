"""All metrics as data: name, type, labels and meaning. A test compares docs/metrics.md with this table.

Counters have the names that a scraper gets, with _total.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NEVER = "never"


class Kind(Enum):
    """The types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. labels: in the order of the output. absent: when the metric has no sample."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    absent: str = NEVER

    @property
    def family(self) -> str:
        """The name without a counter's _total, as client libraries take it."""
        return self.name.removesuffix("_total") if self.kind is Kind.COUNTER else self.name


_MEMBER = ("group", "consumer_id")
_PARTITION = ("group", "topic", "partition")
_UNLEASED = "without a lease"
_FIRST = "before the first refresh"
_NOTHING_TO_ASK = "brokers: while no group has a partition to ask for"
_FORBIDDEN = "for a group that an ACL forbids to read"


def _member(name: str, kind: Kind, meaning: str, *labels: str, absent: str = NEVER) -> Metric:
    return Metric(f"legacy_consumer_member_{name}", kind, (*_MEMBER, *labels), meaning, absent)


def _exporter(name: str, kind: Kind, meaning: str, *labels: str, absent: str = NEVER) -> Metric:
    return Metric(f"legacy_consumer_exporter_{name}", kind, labels, meaning, absent)


def _group(name: str, meaning: str, *labels: str, absent: str = _FORBIDDEN) -> Metric:
    return Metric(f"legacy_consumer_group_{name}", Kind.GAUGE, ("group", *labels), meaning, absent)


def _partition(name: str, meaning: str, *labels: str, absent: str = _FORBIDDEN) -> Metric:
    return Metric(f"legacy_consumer_group_partition_{name}", Kind.GAUGE, (*_PARTITION, *labels), meaning, absent)


PHASE = _member("phase", Kind.GAUGE, "1 for the phase the member is in, 0 for every other one", "phase")
ALIVE = _member("alive", Kind.GAUGE, "1 while the member's threads live and are not stuck, as /healthz reports")
CONNECTED = _member("connected", Kind.GAUGE, "1 while the member is connected to ZooKeeper")
SETTLED_AT = _member("settled_timestamp_seconds", Kind.GAUGE, "when the member was last settled, 0 if never")
LEASED = _member(
    "leased",
    Kind.GAUGE,
    "1 while ZooKeeper's last answer is recent enough to hand out messages; at 0 the member may own nothing",
)
OWNED = _member(
    "owned_partitions",
    Kind.GAUGE,
    "partitions that the member owns",
    "topic",
    absent=f"{_UNLEASED}; of topics of which it owns none",
)
HELD = _member(
    "held_partitions",
    Kind.GAUGE,
    "owned partitions whose messages the member holds back while an operator resets the group's offsets",
)
IN_HAND = _member(
    "in_hand_seconds",
    Kind.GAUGE,
    "how long the user's code has had messages in hand without asking for more, as seen by scrapes; 0 if none",
)
UNASKED = _member(
    "unasked_seconds",
    Kind.GAUGE,
    "how long the user's code has not asked a stream with partitions for messages; while it has some in hand, as seen "
    "by scrapes",
)
REBALANCES = _member(
    "rebalances_total",
    Kind.COUNTER,
    "rebalances that ended: outcome moved (partitions came or went), unchanged, or degraded (all tries were used up)",
    "outcome",
)
REBALANCE_SECONDS = _member(
    "rebalance_duration_seconds", Kind.HISTOGRAM, "from the first step of a rebalance until the member was settled"
)
REBALANCE_FAILURES = _member(
    "rebalance_failures_total", Kind.COUNTER, "steps of joining or rebalancing that ended in an error, and were retried"
)
CONFLICTS = _member(
    "ownership_conflicts_total", Kind.COUNTER, "claims that found owner znodes of other members in the way"
)
SESSION_EVENTS = _member(
    "session_events_total",
    Kind.COUNTER,
    "events of the ZooKeeper session: connected, suspended, expired or auth_failed",
    "event",
)
CONSUMED_OFFSET = _member(
    "consumed_offset",
    Kind.GAUGE,
    "the offset after the last consumed message",
    "topic",
    "partition",
    absent=f"{_UNLEASED}; while no position is known",
)
COMMITTED_OFFSET = _member(
    "committed_offset",
    Kind.GAUGE,
    "the committed offset",
    "topic",
    "partition",
    absent=f"{_UNLEASED}; while none is committed, or one of an earlier topic",
)
LOG_END_OFFSET = _member(
    "log_end_offset",
    Kind.GAUGE,
    "the offset after the last message of the log, at most 13 seconds old",
    "topic",
    "partition",
    absent=f"{_UNLEASED}; where no broker answers",
)
LAG = _member(
    "lag",
    Kind.GAUGE,
    "messages not consumed yet; log end and consumed offset are of the same moment",
    "topic",
    "partition",
    absent=f"{_UNLEASED}; where log end or consumed offset is not known, or the offset lies beyond the end",
)
LAG_AGE = _member(
    "lag_age_seconds",
    Kind.GAUGE,
    "how long ago the member asked the brokers for the log ends; also if no broker could be reached: then without lag",
    absent=f"{_UNLEASED}; while it owns nothing; where brokers were asked and have not answered for 13 seconds",
)
CONSUMED = _member(
    "consumed_messages_total",
    Kind.COUNTER,
    "the sum of the steps by which the consumed offsets of owned partitions grew",
    "topic",
    absent="of topics before its first claim",
)
COMMITTED = _member(
    "committed_messages_total",
    Kind.COUNTER,
    "the sum of the steps by which the committed offsets of owned partitions grew",
    "topic",
    absent="of topics before its first claim",
)
COMMITS = _member("commits_total", Kind.COUNTER, "commits by outcome: done or failed", "outcome")
FOREIGN_COMMITS = _member(
    "foreign_commits_total", Kind.COUNTER, "offsets of owned partitions that another client wrote"
)
FETCH_ERRORS = _member("fetch_errors_total", Kind.COUNTER, "errors that streams raised instead of a batch")
UNEXPECTED_ERRORS = _member(
    "unexpected_errors_total", Kind.COUNTER, "auto commits and audits that ended in an unforeseen error"
)
LISTENER_ERRORS = _member("listener_errors_total", Kind.COUNTER, "exceptions of the rebalance listener")

_CLASSIC = "with group.coordination=classic"
COORDINATION = _member(
    "coordination",
    Kind.GAUGE,
    "1 for the rule that gives the member its share now: leader or classic; a led group uses the classic rule "
    "while one of its members follows no leader",
    "coordination",
)
LED_STATE = _member(
    "led_state",
    Kind.GAUGE,
    "1 for the member's state in a led group, 0 for every other: down, discovering, member, rediscovering or stopped",
    "state",
    absent=_CLASSIC,
)
GENERATION = _member("generation", Kind.GAUGE, "the last generation that the member knows, 0 if none", absent=_CLASSIC)
LEADS = _member("leads", Kind.GAUGE, "1 if the member leads its group", absent=_CLASSIC)
GROUP_STATE = _member(
    "group_state",
    Kind.GAUGE,
    "1 for the state of the group: Empty, PreparingRebalance, CompletingRebalance, Stable or Dead",
    "state",
    absent="for members that do not lead",
)

MEMBER_METRICS: tuple[Metric, ...] = (
    PHASE,
    ALIVE,
    CONNECTED,
    LEASED,
    SETTLED_AT,
    OWNED,
    HELD,
    IN_HAND,
    UNASKED,
    REBALANCES,
    REBALANCE_SECONDS,
    REBALANCE_FAILURES,
    CONFLICTS,
    SESSION_EVENTS,
    CONSUMED_OFFSET,
    COMMITTED_OFFSET,
    LOG_END_OFFSET,
    LAG,
    LAG_AGE,
    CONSUMED,
    COMMITTED,
    COMMITS,
    FOREIGN_COMMITS,
    FETCH_ERRORS,
    LISTENER_ERRORS,
    UNEXPECTED_ERRORS,
    COORDINATION,
    LED_STATE,
    GENERATION,
    LEADS,
    GROUP_STATE,
)
"""Of each member of this project, at its own port."""

GROUP_MEMBERS = _group("members", "registered members, the unreadable ones included")
GROUP_UNREADABLE = _group(
    "unreadable_members", "unreadable registrations: JVM members cannot rebalance while there is one"
)
GROUP_MEMBER_BROKERS = _group(
    "member_brokers",
    "brokers that lead the member's partitions, to which it must connect; BROKERS of `groups describe`",
    "consumer_id",
)
GROUP_PARTITIONS = _group(
    "partitions",
    "partitions that the group consumes: all partitions of existing topics to which a member subscribes; of all "
    "its existing topics if the group has no member",
)
GROUP_UNOWNED = _group("unowned_partitions", "consumed partitions without a registered owner")
GROUP_LAG = _group(
    "lag",
    "messages not committed yet, in all partitions that the group consumes",
    absent=f"{_FORBIDDEN}; if the lag of one partition is not known",
)
GROUP_VERDICT = _group("verdict", "1 for the group's verdict: ok, unknown, warning or error", "verdict", absent=_FIRST)
GROUP_VERDICTS = _group(
    "verdict_partitions",
    "partitions with each verdict",
    "verdict",
    absent=f"{_FORBIDDEN}; for verdicts without a partition",
)
_LEADERLESS = f"{_FORBIDDEN}; if no member has group.coordination=leader"
GROUP_COORDINATION = _group(
    "coordination", "1 for the rule that gives the members their shares now: leader or classic", "coordination"
)
GROUP_GENERATION = _group("generation", "the last generation that its leader wrote, 0 if none", absent=_LEADERLESS)
GROUP_LED_STATE = _group(
    "led_state",
    "1 for the state of a led group: Empty, PreparingRebalance or Stable",
    "state",
    absent=_LEADERLESS,
)
GROUP_HAS_LEADER = _group("has_leader", "1 while a member leads, else 0", absent=_LEADERLESS)
PARTITION_LAG = _partition(
    "lag",
    "messages that a member would still read",
    absent="where no broker reported the log's end, the offset lies beyond it, or nothing was ever committed "
    "while the log holds messages",
)
PARTITION_COMMITTED = _partition(
    "committed_offset",
    "the committed offset in ZooKeeper",
    absent="while there is none, or one of an earlier topic or that cannot be read",
)
PARTITION_COMMITTED_AT = _partition(
    "committed_timestamp_seconds",
    "when the offset was last written, by ZooKeeper's clock",
    absent="while there is none",
)
PARTITION_OWNED = _partition("owned", "1 if a registered member owns the partition, else 0")
PARTITION_VERDICT = _partition(
    "verdict",
    "1 for the partition's verdict: ok, unknown, warning, rewind, stall, stop or error",
    "verdict",
    absent="if the group does not consume it",
)
TOPIC_END = Metric(
    "legacy_consumer_topic_log_end_offset",
    Kind.GAUGE,
    ("topic", "partition"),
    "the offset after the last message of the log, for each partition that a group owns, has committed or consumes",
    "where no broker reported it at the last refresh",
)
EXPORTER_INFO = _exporter("info", Kind.GAUGE, "always 1, with the version of legacy-consumer", "version")
EXPORTER_UP = _exporter(
    "up",
    Kind.GAUGE,
    "1 if the exporter could read this source at the last refresh, and that was not long ago: zookeeper, brokers",
    "source",
    absent=_NOTHING_TO_ASK,
)
EXPORTER_AGE = _exporter(
    "data_age_seconds",
    Kind.GAUGE,
    "age of the data of this source that the exporter serves: since it began to read it",
    "source",
    absent=f"before the exporter has read the source for the first time; {_NOTHING_TO_ASK}",
)
EXPORTER_UNKNOWN_ENDS = _exporter(
    "unknown_log_ends", Kind.GAUGE, "partitions whose log end no broker reported at the last refresh", absent=_FIRST
)
EXPORTER_REFRESHES = _exporter("refreshes_total", Kind.COUNTER, "refreshes by outcome: done or failed", "outcome")
EXPORTER_REFRESH_SECONDS = _exporter(
    "refresh_duration_seconds",
    Kind.GAUGE,
    "duration of each step of the last refresh: zookeeper (pauses included), brokers, judge, render",
    "step",
    absent="before the step has ended for the first time",
)
EXPORTER_READS = _exporter("zookeeper_reads_total", Kind.COUNTER, "znodes that the exporter read")
EXPORTER_BATCHES = _exporter("zookeeper_batches_total", Kind.COUNTER, "batches of znodes that the exporter read")
EXPORTER_GROUPS = _exporter(
    "groups", Kind.GAUGE, "groups that the exporter serves, by whether they have members", "state", absent=_FIRST
)
EXPORTER_PARTITIONS = _exporter(
    "partitions", Kind.GAUGE, "partitions of the groups that the exporter serves", absent=_FIRST
)
EXPORTER_PAGE_BYTES = _exporter("page_bytes", Kind.GAUGE, "size of the cached part of a scrape")

EXPORTER_METRICS: tuple[Metric, ...] = (
    GROUP_MEMBERS,
    GROUP_UNREADABLE,
    GROUP_MEMBER_BROKERS,
    GROUP_PARTITIONS,
    GROUP_UNOWNED,
    GROUP_LAG,
    GROUP_VERDICT,
    GROUP_VERDICTS,
    GROUP_COORDINATION,
    GROUP_GENERATION,
    GROUP_LED_STATE,
    GROUP_HAS_LEADER,
    PARTITION_LAG,
    PARTITION_COMMITTED,
    PARTITION_COMMITTED_AT,
    PARTITION_OWNED,
    PARTITION_VERDICT,
    TOPIC_END,
    EXPORTER_INFO,
    EXPORTER_UP,
    EXPORTER_AGE,
    EXPORTER_UNKNOWN_ENDS,
    EXPORTER_REFRESHES,
    EXPORTER_REFRESH_SECONDS,
    EXPORTER_READS,
    EXPORTER_BATCHES,
    EXPORTER_GROUPS,
    EXPORTER_PARTITIONS,
    EXPORTER_PAGE_BYTES,
)
"""Of `legacy-consumer exporter`."""

METRICS = MEMBER_METRICS + EXPORTER_METRICS
