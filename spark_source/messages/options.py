"""All options of zk_messages as data, and the options of one read. Docs and tests are made from OPTIONS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.config.cluster_config import check_name
from rebalance.subscription import Blacklist, TopicFilter, Whitelist
from spark_source.messages.kafka_options import KAFKA_SOURCE_OPTIONS
from spark_source.messages.offset_spec import (
    COMMITTED,
    FROM_EARLIEST,
    TO_LATEST,
    OffsetKind,
    OffsetSpec,
    parse_offset_spec,
    parse_partitions,
)
from spark_source.option_names import (
    CLUSTER_OPTIONS,
    MESSAGES_FORMAT,
    RDKAFKA_OPTION,
    Option,
    duration_ms,
    flag,
    number,
    property_options,
    sort_options,
    word,
)
from spark_source.patterns import is_topic_name
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition


class LiveGroup(Enum):
    """The reaction of a stream to registered members of its group."""

    FAIL = "fail"
    ALLOW = "allow"


class TimeStrategy(Enum):
    """The reaction to a partition without a message of the wanted time or later."""

    LATEST = "latest"
    ERROR = "error"


_MOST_TASKS = 100_000
_FETCH_TIMEOUT_MS = 60_000
_MAX_TRIGGER_DELAY = "15m"

READ_OPTIONS = (
    Option("topics", "none", "topics to read, by name, separated by commas"),
    Option("whitelist", "none", "or topics whose whole name matches this Java regular expression"),
    Option("blacklist", "none", "or topics whose whole name does not match it"),
    Option("partitions", "none", 'or some partitions, as JSON `{"t": [0, 2]}`; one of the four is required'),
    Option("group.id", "none", "the group whose committed offsets count, and for which a stream commits"),
    Option(
        "startingOffsets",
        "committed with group.id, else earliest",
        "where to begin: `committed`, `earliest`, `latest`, a time (ms since 1970, or as "
        '`2013-01-01T05:00:00Z`), or JSON as `{"t": {"0": 5}}` where -2 is earliest and -1 latest; a stream '
        "with a checkpoint continues from it",
    ),
    Option("endingOffsets", "latest", "where a batch read ends, likewise; streams have no end"),
    Option(
        "startingOffsetsByTimestampStrategy",
        TimeStrategy.LATEST.value,
        "for a partition that has no message of the time in startingOffsets or later: `latest` = begin at its "
        "end, `error` = refuse the query",
    ),
    Option(
        "auto.offset.reset",
        "smallest",
        "where to begin in partitions for which the group committed nothing: `smallest` or `largest`",
    ),
    Option("minPartitions", "one for each partition", "cuts big ranges until there are this many tasks"),
    Option("maxRecordsPerPartition", "none", "most offsets that one task reads; big ranges are cut"),
    Option("failOnDataLoss", "true", "`false` reads the rest of a range of which the log no longer holds a part"),
    Option("includeHeaders", "false", "adds the column headers; a schema that names it does so too"),
    Option("fetchTimeoutMs", str(_FETCH_TIMEOUT_MS), "longest wait of a task for the next message of its range"),
)
STREAM_OPTIONS = (
    Option("maxOffsetsPerTrigger", "none", "most offsets of one trigger, shared among the partitions by their lag"),
    Option("minOffsetsPerTrigger", "none", "delays a batch until there are this many offsets to read"),
    Option(
        "maxTriggerDelay",
        _MAX_TRIGGER_DELAY,
        "with minOffsetsPerTrigger: longest time after the previous batch: a number and `ms`, `s`, `m` or `h`",
    ),
    Option("commitOffsets", "true with group.id", "whether finished batches become the group's committed offsets"),
    Option("claimOwnership", "false", "register as the group's only member and own all partitions while it runs"),
    Option("liveGroup", LiveGroup.FAIL.value, "`allow` commits although the group has live members"),
)
OWN_OPTIONS = (*READ_OPTIONS, *STREAM_OPTIONS)
FETCH_OPTIONS = property_options(
    (
        "fetcher",
        "isolation.level",
        "exclude.internal.topics",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.wait.max.ms",
        "refresh.leader.backoff.ms",
    )
)
_PROPERTIES = (*FETCH_OPTIONS, *CLUSTER_OPTIONS)

OPTIONS = (*OWN_OPTIONS, *_PROPERTIES, RDKAFKA_OPTION)
"""All options, in the order of the docs."""

_HINTS = {
    **{name.lower(): reason.replace("`", "") for name, reason in KAFKA_SOURCE_OPTIONS.items()},
    "groups": f"{MESSAGES_FORMAT} reads for one group: name it in group.id",
}
_CHOICES = ("topics", "whitelist", "blacklist", "partitions")
_OWN_PROPERTIES = ("group.id", "auto.offset.reset")


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Either names or a filter. partitions: the partitions to read of the named topics; empty = all."""

    names: tuple[str, ...] = ()
    partitions: frozenset[TopicPartition] = frozenset()
    filter: TopicFilter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOptions:
    """The options of a read of zk_messages, from parse_message_options. Pickled to the executors, with passwords.

    group: None = no group's offsets count. commit_offsets, claim_ownership, live_group: of streams.
    """

    config: ConsumerConfig
    group: str | None
    topics: TopicChoice
    starting: OffsetSpec
    ending: OffsetSpec
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    include_headers: bool
    fetch_timeout_ms: int
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    commit_offsets: bool | None
    """The option's value; None = not given."""
    claim_ownership: bool
    live_group: LiveGroup

    @property
    def commits(self) -> bool:
        """Whether a stream commits its finished batches to the group."""
        return self.group is not None if self.commit_offsets is None else self.commit_offsets


def parse_message_options(given: Mapping[str, str]) -> MessageOptions:
    """Check all options. Raises: ConfigError for the first wrong one, before any I/O."""
    found = sort_options(MESSAGES_FORMAT, given, OWN_OPTIONS, _PROPERTIES, _HINTS)
    own = found.own
    properties = found.properties
    group = own.get("group.id")
    if group is None and "client.id" in properties:
        check_name("client.id", str(properties["client.id"]))  # first: an error about group.id would mislead
    properties["group.id"] = group if group is not None else properties.get("client.id", "legacy-consumer")
    properties["auto.offset.reset"] = own.get("auto.offset.reset", "smallest")
    topics = _topics(own)
    config = ConsumerConfig.load(overrides=properties)
    if config.reset_to is None:
        what = "leaves a query no place to begin: use smallest or largest, or name each offset in startingOffsets"
        raise ConfigError("auto.offset.reset", "none", what)
    if config.fetcher == "columnar":
        from legacy_consumer.fetching.fetchers import choose_fetcher  # takes a moment to load

        choose_fetcher(config)  # refuses what can never work
    starting = parse_offset_spec("startingOffsets", own.get("startingOffsets", "committed" if group else "earliest"))
    ending = parse_offset_spec("endingOffsets", own.get("endingOffsets", "latest"))
    for name, spec in (("startingOffsets", starting), ("endingOffsets", ending)):
        if spec == COMMITTED and group is None:
            raise ConfigError(name, "committed", "needs the group: name it in group.id")
    strategy = word(own, "startingOffsetsByTimestampStrategy", TimeStrategy.LATEST)
    if strategy is TimeStrategy.ERROR:
        if starting.kind is not OffsetKind.TIME:
            raise ConfigError("startingOffsetsByTimestampStrategy", "error", "needs a time in startingOffsets")
        starting = replace(starting, must_have_message=True)
    _refuse_end_before_start(own, starting, ending)
    if ending == FROM_EARLIEST:
        raise ConfigError("endingOffsets", "earliest", "would read nothing")
    options = MessageOptions(
        config=config,
        group=group,
        topics=topics,
        starting=starting,
        ending=ending,
        min_partitions=number(own, "minPartitions", maximum=_MOST_TASKS),
        max_records=number(own, "maxRecordsPerPartition"),
        fail_on_data_loss=flag(own, "failOnDataLoss", default=True),
        include_headers=flag(own, "includeHeaders", default=False),
        fetch_timeout_ms=number(own, "fetchTimeoutMs", maximum=2**31 - 1) or _FETCH_TIMEOUT_MS,
        max_offsets_per_trigger=number(own, "maxOffsetsPerTrigger"),
        min_offsets_per_trigger=number(own, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=duration_ms(own, "maxTriggerDelay", _MAX_TRIGGER_DELAY),
        commit_offsets=flag(own, "commitOffsets", default=False) if "commitOffsets" in own else None,
        claim_ownership=flag(own, "claimOwnership", default=False),
        live_group=word(own, "liveGroup", LiveGroup.FAIL),
    )
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise ConfigError("minOffsetsPerTrigger", str(least), f"is more than maxOffsetsPerTrigger, {most}")
    for name, needs in (("commitOffsets", options.commit_offsets), ("claimOwnership", options.claim_ownership)):
        if needs and group is None:
            raise ConfigError(name, own.get(name), "needs the group: name it in group.id")
    return options


def check_for_stream(options: MessageOptions) -> None:
    """Refuse options of batch reads. Raises: ConfigError."""
    if options.ending != TO_LATEST:
        raise ConfigError("endingOffsets", None, "is for batch reads: a stream has no end")


def check_for_batch(options: MessageOptions) -> None:
    """Refuse options of streams. Raises: ConfigError."""
    for name, is_on in (("claimOwnership", options.claim_ownership), ("commitOffsets", options.commit_offsets)):
        if is_on:
            raise ConfigError(name, "true", "is for streams: a batch read owns nothing and commits nothing")
    if options.min_offsets_per_trigger is not None:
        raise ConfigError("minOffsetsPerTrigger", None, "is for streams: a batch read takes what there is")
    if options.max_offsets_per_trigger is not None:
        raise ConfigError("maxOffsetsPerTrigger", None, "is for streams: bound a batch read with endingOffsets")
    if options.max_trigger_delay_ms != duration_ms({}, "maxTriggerDelay", _MAX_TRIGGER_DELAY):
        raise ConfigError("maxTriggerDelay", None, "is for streams: a batch read waits for no trigger")
    if options.live_group is not LiveGroup.FAIL:
        raise ConfigError("liveGroup", options.live_group.value, "is for streams: a batch read commits nothing")
    if options.starting == TO_LATEST:
        raise ConfigError("startingOffsets", "latest", "would read nothing: a batch read ends there")


def _topics(own: Mapping[str, str]) -> TopicChoice:
    given = [name for name in _CHOICES if name in own]
    choices = f"{', '.join(_CHOICES[:-1])} {{}} {_CHOICES[-1]}"
    if len(given) != 1:
        raise ConfigError(
            given[1] if given else "topics",
            None,
            f"stands beside {given[0]}: give one of {choices.format('and')}"
            if given
            else f"is required: give {choices.format('or')}",
        )
    name = given[0]
    if name == "whitelist":
        return TopicChoice(filter=Whitelist(own[name]))
    if name == "blacklist":
        return TopicChoice(filter=Blacklist(own[name]))
    if name == "partitions":
        partitions = parse_partitions(name, own[name])
        return TopicChoice(tuple(sorted({tp.topic for tp in partitions})), partitions)
    names = tuple(dict.fromkeys(entry.strip() for entry in own[name].split(",")))
    if not all(map(is_topic_name, names)):
        raise ConfigError(name, own[name], "must be names of topics separated by commas")
    return TopicChoice(names)


def _refuse_end_before_start(own: Mapping[str, str], starting: OffsetSpec, ending: OffsetSpec) -> None:
    """Raises: ConfigError if endingOffsets lies before startingOffsets, and both are given as numbers."""
    starts = dict(starting.given)
    backwards = [tp for tp, offset in ending.given if 0 <= offset < starts.get(tp, 0)]
    if starting.kind is ending.kind is OffsetKind.TIME and ending.time_ms < starting.time_ms:
        raise ConfigError("endingOffsets", own["endingOffsets"], "lies before startingOffsets")
    if backwards:
        raise ConfigError("endingOffsets", own["endingOffsets"], f"lies before startingOffsets in {backwards[0]}")
