"""All benchmarks: one table, a row for each comparison, in the order of the printed table.

A row holds the measured quantity, the scene, our side, the peer, and the ratio to reach.
"""

from __future__ import annotations

from typing import Any

from benchmarks.comparison import Comparison
from benchmarks.consuming import (
    COMPRESSED,
    FORMAT_0_MESSAGES,
    FORMAT_1_MESSAGES,
    LARGE_MESSAGES,
    MESSAGES_FOR_SPARK,
    MESSAGES_PER_S,
    PEAK_MB,
    SMALL_MESSAGES,
    ConsumerPerformance,
    ConsumingScene,
    ConsumingStage,
    Ours,
    Raw,
    Socket,
)
from benchmarks.describing import KafkaTool, ListAgain, Tree, TreeScene
from benchmarks.describing import Ours as OurCommand
from benchmarks.first_message import FIRST_MESSAGE
from benchmarks.grouping import (
    COMMITS_PER_S,
    IN_ONE_PROCESS,
    JOIN_REQUESTS,
    JOIN_S,
    LEAVE_S,
    LED_SIZES,
    SIZES,
    START_S,
    Changes,
    Commits,
    GroupScene,
    GroupStage,
    Size,
)
from benchmarks.processes import Side
from benchmarks.spark_reading import (
    SECONDS,
    ZNODES_PER_S,
    OffsetsScene,
    OffsetsStage,
    ReadMessages,
    ReadOffsets,
)

_JAVA, _SCALA = ConsumerPerformance("jvm_new"), ConsumerPerformance("scala")
_ARROW, _BATCHES, _ITERATE = Ours("arrow"), Ours("batches"), Ours("iterate")


def _consuming(
    name: str,
    about: str,
    ours: Ours,
    peer: Ours | Raw | Socket | ConsumerPerformance,
    target: float | None = None,
    *,
    scene: ConsumingScene = SMALL_MESSAGES,
    headline: bool = False,
) -> Comparison[ConsumingStage]:
    return Comparison(
        name=name,
        about=about,
        scene=scene,
        ours=ours,
        peer=peer,
        figure=MESSAGES_PER_S,
        unit="messages/s",
        better="higher",
        target=target,
        in_quick=scene is SMALL_MESSAGES,
        headline=headline,
    )


def _memory(
    name: str, about: str, ours: Ours, peer: Raw | Socket, scene: ConsumingScene = SMALL_MESSAGES
) -> Comparison[ConsumingStage]:
    return Comparison(
        name=name,
        about=about,
        scene=scene,
        ours=ours,
        peer=peer,
        figure=PEAK_MB,
        unit="MB",
        better="lower",
        in_quick=scene is SMALL_MESSAGES,
    )


_CONSUMING = (
    _consuming("consume_batches_vs_raw", "batches() against confluent_kafka's consume()", _BATCHES, Raw(), 0.95),
    _consuming("consume_batches_vs_scala", "batches() against the Scala consumer", _BATCHES, _SCALA, 1.0),
    _consuming(
        "consume_batches_vs_jvm_new", "batches() against the newer Java consumer", _BATCHES, _JAVA, 2.5, headline=True
    ),
    _consuming(
        "consume_arrow_vs_jvm_new", "arrow_batches() against the newer Java consumer", _ARROW, _JAVA, 6, headline=True
    ),
    _consuming("consume_arrow_vs_socket", "arrow_batches() against reading the same bytes", _ARROW, Socket(), 0.85),
    _consuming("iterate_vs_scala", "for message in stream against the Scala consumer", _ITERATE, _SCALA, 0.9),
    _consuming(
        "iterate_vs_jvm_new",
        "for message in stream against the newer Java consumer",
        _ITERATE,
        _JAVA,
        2.0,
        headline=True,
    ),
    _memory("consume_memory_vs_raw", "peak memory of a process with batches(), or with consume()", _BATCHES, Raw()),
    _memory("consume_memory_arrow_vs_socket", "with arrow_batches(), or reading the same bytes", _ARROW, Socket()),
    _memory(
        "consume_memory_snappy_vs_floor", "the same, compressed with snappy", _ARROW, Socket(unpack=True),
        COMPRESSED["snappy"],
    ),
    _consuming(
        "consume_arrow_1kb_vs_jvm_new", "the same, messages of 1,000 bytes", _ARROW, _JAVA, scene=LARGE_MESSAGES
    ),
    _consuming(
        "consume_arrow_1kb_vs_socket", "the same, against reading the same bytes", _ARROW, Socket(), 0.85,
        scene=LARGE_MESSAGES,
    ),
    _consuming(
        "consume_arrow_1kb_vs_floor", "the same, against reading, checking and copying once", _ARROW,
        Socket(unpack=True), scene=LARGE_MESSAGES,
    ),
    _consuming(
        "consume_arrow_snappy_vs_jvm_new", "messages of 100 bytes, compressed with snappy", _ARROW, _JAVA,
        scene=COMPRESSED["snappy"],
    ),
    *(
        _consuming(
            f"consume_arrow_{codec}_vs_floor", f"{codec}, against reading, checking and decompressing", _ARROW,
            Socket(unpack=True), 0.7, scene=scene,
        )
        for codec, scene in COMPRESSED.items()
    ),
    _consuming(
        "consume_arrow_format0_vs_scala", "format 0, Kafka 0.8.2.2 on both sides", _ARROW, _SCALA, 5,
        scene=FORMAT_0_MESSAGES,
    ),
    _consuming(
        "consume_arrow_format1_vs_scala", "format 1, Kafka 0.10.2.2 on both sides", _ARROW, _SCALA, 5,
        scene=FORMAT_1_MESSAGES,
    ),
    *(
        _consuming(
            f"consume_arrow_{version}_vs_socket", f"{version}, against reading the same bytes", _ARROW, Socket(),
            scene=scene,
        )
        for version, scene in (("format0", FORMAT_0_MESSAGES), ("format1", FORMAT_1_MESSAGES))
    ),
)  # fmt: skip

_COMMIT: Comparison[GroupStage] = Comparison(
    name="commit_vs_jvm",
    about="commit_offsets() of 500 changed offsets against ConsumerConnector.commitOffsets() of as many",
    scene=GroupScene(partitions=500),
    ours=Commits("ours"),
    peer=Commits("jvm"),
    figure=COMMITS_PER_S,
    unit="commits of 500 offsets/s",
    better="higher",
    target=20.0,
    headline=True,
)


def _change(kind: str, about: str, figure: str, unit: str, size: Size, target: float | None) -> Comparison[GroupStage]:
    return Comparison(
        name=size.name(kind),
        about=f"{about} of {size}",
        scene=size.scene,
        ours=Changes("ours", size.members, size.in_one_process),
        peer=Changes("jvm", size.members, size.in_one_process),
        figure=figure,
        unit=unit,
        better="lower",
        target=target,
        in_quick=size.in_quick,
        headline=size == Size(16, 500),
    )


def _led(side: Side, kind: str, about: str, figure: str, unit: str, size: Size) -> Comparison[GroupStage]:
    strategy = "cooperative-sticky" if side == "cooperative" else "range"
    return Comparison(
        name=f"{kind}_{side}_vs_classic_{size.members}_{size.partitions}",
        about=f"{about} of {size}, led by a member, by {strategy}, against classic",
        scene=size.scene,
        ours=Changes(side, size.members),
        peer=Changes("ours", size.members),
        figure=figure,
        unit=unit,
        better="lower",
        in_quick=False,
    )


_LED_SIDES: tuple[Side, ...] = ("led", "cooperative")
_LED = tuple(
    _led(side, kind, about, figure, unit, size)
    for side in _LED_SIDES
    for kind, about, figure, unit in (
        ("join", "one member joins a group", JOIN_S, "s"),
        ("leave", "one member leaves a group, which is then", LEAVE_S, "s"),
        ("zk_requests", "requests at ZooKeeper while one joins a group", JOIN_REQUESTS, "requests"),
    )
    for size in LED_SIZES
)

_CHANGES = (
    *(
        _change("join", "one member joins a group", JOIN_S, "s", size, 0.12 if size.plain else 0.05)
        for size in SIZES
    ),
    *(
        _change("leave", "one member leaves a group, which is then", LEAVE_S, "s", size, 0.25 if size.plain else 0.15)
        for size in SIZES
    ),
    *(
        _change("start", "all members start at once: a group", START_S, "s", size, 0.8 if size.plain else 0.35)
        for size in SIZES
    ),
    *(
        _change(
            "zk_requests", "requests at ZooKeeper while one joins a group", JOIN_REQUESTS, "requests", size,
            0.1 if size.plain else 0.04,
        )
        for size in SIZES
    ),
    _change("join", "one member joins a group", JOIN_S, "s", IN_ONE_PROCESS, None),
)  # fmt: skip


def _command(
    name: str, about: str, ours: OurCommand | ListAgain, peer: KafkaTool | ListAgain, target: float | None = None
) -> Comparison[Tree]:
    return Comparison(
        name=name,
        about=about,
        scene=TreeScene(1000),
        ours=ours,
        peer=peer,
        figure="s",
        unit="s",
        better="lower",
        target=target,
        headline=name == "describe_vs_kafka_tool",
    )


_COMMANDS = (
    _command(
        "describe_vs_kafka_tool",
        "time for each of 1,000 groups of 100 partitions described, starts of the JVM and of Python included",
        OurCommand("describe all"),
        KafkaTool("describe one"),
        0.1,
    ),
    _command(
        "describe_one_vs_kafka_tool",
        "one group of 100 partitions described among 1,000, starts of the JVM and of Python included",
        OurCommand("describe one"),
        KafkaTool("describe one"),
    ),
    _command(
        "list_vs_kafka_tool",
        "1,000 groups named, starts of the JVM and of Python included",
        OurCommand("list"),
        KafkaTool("list"),
        0.1,
    ),
    _command(
        "list_again_vs_kafka_tool",
        "1,000 groups named once more in a process that has done it before",
        ListAgain("ours"),
        ListAgain("jvm"),
    ),
)


def _spark(
    name: str, about: str, ours: ReadMessages, peer: ReadMessages, target: float | None
) -> Comparison[ConsumingStage]:
    return Comparison(
        name=name,
        about=about,
        scene=MESSAGES_FOR_SPARK,
        ours=ours,
        peer=peer,
        figure=MESSAGES_PER_S,
        unit="messages/s",
        better="higher",
        target=target,
        in_quick=False,
        headline=name == "spark_messages_vs_connector",
    )


_SPARK_MESSAGES = (
    _spark(
        "spark_messages_vs_connector",
        "zk_messages, batch, against Spark's own Kafka connector with an expert's settings",
        ReadMessages("zk_messages"),
        ReadMessages("kafka", tuned=True),
        3.0,
    ),
    _spark(
        "spark_messages_vs_connector_as_it_comes",
        "the same, against Spark's own Kafka connector with its defaults",
        ReadMessages("zk_messages"),
        ReadMessages("kafka"),
        3.0,
    ),
    _spark(
        "spark_messages_pruned_vs_connector",
        "zk_messages of value and offset only, against Spark's own Kafka connector with an expert's settings",
        ReadMessages("zk_messages", pruned=True),
        ReadMessages("kafka", pruned=True, tuned=True),
        4,
    ),
    _spark(
        "spark_messages_vs_ready_batches",
        "zk_messages, against a source in Python that hands out batches made beforehand",
        ReadMessages("zk_messages"),
        ReadMessages("ready"),
        None,
    ),
    _spark(
        "spark_messages_pruned_vs_ready_batches",
        "zk_messages of value and offset only, against such a source",
        ReadMessages("zk_messages", pruned=True),
        ReadMessages("ready", pruned=True),
        None,
    ),
    _spark(
        "spark_messages_librdkafka_vs_connector",
        "zk_messages through librdkafka, against Spark's own Kafka connector with an expert's settings",
        ReadMessages("zk_messages", fetcher="librdkafka"),
        ReadMessages("kafka", tuned=True),
        0.8,
    ),
)

_SPARK_OFFSETS: tuple[Comparison[OffsetsStage], ...] = (
    Comparison(
        name="spark_offsets_vs_kazoo",
        about="zk_offsets, 100,000 offsets of 1,000 groups, against two processes of pipelined kazoo",
        scene=OffsetsScene(),
        ours=ReadOffsets("spark_offsets"),
        peer=ReadOffsets("kazoo_offsets"),
        figure=ZNODES_PER_S,
        unit="znodes/s",
        better="higher",
        target=5.0,
        headline=True,
    ),
    Comparison(
        name="spark_offsets_zk35_vs_kazoo",
        about="the same on ZooKeeper 3.5.9, which takes no reads in bulk",
        scene=OffsetsScene(version="3.5"),
        ours=ReadOffsets("spark_offsets"),
        peer=ReadOffsets("kazoo_offsets"),
        figure=SECONDS,
        unit="s",
        better="lower",
        target=1.3,
        in_quick=False,
    ),
)

_ALL: tuple[Comparison[Any], ...] = (
    *_CONSUMING,
    *FIRST_MESSAGE,
    _COMMIT,
    *_CHANGES,
    *_LED,
    *_COMMANDS,
    *_SPARK_MESSAGES,
    *_SPARK_OFFSETS,
)

BENCHMARKS: dict[str, Comparison[Any]] = {comparison.name: comparison for comparison in _ALL}
"""{name: comparison}, in the order of the table."""
