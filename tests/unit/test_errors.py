"""The whole project has one tree of errors, and every error survives pickle."""

import ast
import importlib
import inspect
import pickle
import re
from pathlib import Path

import pytest

from legacy_consumer import errors as consumer
from legacy_consumer.operations.admin import errors as changing
from legacy_consumer.sandbox.nodes import errors as nodes
from legacy_consumer.sandbox.quickstart import errors as quickstart
from rebalance import errors as rebalancing
from spark_source import errors as spark
from zk_layout import errors as layout
from zk_layout.model import TopicPartition

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    source.relative_to(ROOT)
    for package in ("zk_layout", "rebalance", "legacy_consumer", "spark_source")
    for source in (ROOT / package).rglob("*.py")
)
MODULES = [
    importlib.import_module(".".join(source.with_suffix("").parts)) for source in SOURCES if source.name == "errors.py"
]
TP = TopicPartition("t", 3)

SAMPLES = [
    layout.LegacyConsumerError("something failed"),
    quickstart.QuickstartError("member-1 ended by itself"),
    nodes.ClusterNotReadyError("3 registered brokers", 60.0),
    spark.SparkSourceError("cannot be made"),
    spark.SchemaMismatchError("lag", "can be null"),
    spark.MissingGroupsError(("a", "b*")),
    spark.DamagedSegmentError("/logs/t-0/0.log: sound to byte 3; then: junk"),
    spark.SparkReadError("no ZooKeeper answered"),
    spark.MissingOffsetsError("startingOffsets", (TP,), (TopicPartition("u", 0),)),
    spark.NoTopicsError("whitelist a.*", 3),
    spark.NoSuchPartitionsError((TP,)),
    spark.NoMessageAtTimeError("startingOffsets", (TP,)),
    spark.CheckpointError("names a, b"),
    spark.DataLossError((spark.Lost(TP, 5, 30, 10, 20), spark.Lost(TopicPartition("u", 0), 9, 9, 0, 4))),
    spark.DataLossError((spark.LostLog(TP, 5, 30), spark.LostLog(TopicPartition("u", 0), 9, None, again=True))),
    spark.RangeReadError(TP, 5, 10, "no message came"),
    spark.UndecidedError(((TP, 30, 10),)),
    spark.LiveGroupError("g", ("c", "d")),
    spark.OwnershipLostError("g", {TP: "c-0"}),
    spark.UnreadableZnodeError("/consumers/g/offsets/t/0 holds b'x'"),
    spark.OffsetWriteError("a row has no group"),
    spark.OffsetWriteError("the connection was lost", ("those of g",)),
    layout.ConfigError("group.id", "a b", "may only hold letters, digits, '.', '_' and '-'"),
    layout.ConfigError("group.id", None, "is required"),
    layout.ZkLayoutError("not laid out so"),
    layout.MalformedZnodeError("/consumers/g/ids/c", b"\xff\n" * 100, "it is not UTF-8 text"),
    layout.MalformedZnodeError("/consumers/g/ids/c", None, "it is empty"),
    layout.ZooKeeperError("refused"),
    layout.ConnectionLostError("connection lost"),
    layout.ConnectTimeoutError("h1:2181,h2:2181/kafka", 6000),
    layout.SessionExpiredError("session expired"),
    layout.AuthenticationError("digest refused"),
    layout.NotPermittedError("/consumers/g"),
    layout.MissingChrootError("/kafka"),
    layout.UnimplementedRequestError("this ZooKeeper cannot do that"),
    layout.NoNodeError("/consumers/g"),
    layout.NodeExistsError("/consumers/g"),
    layout.BadVersionError("/consumers/g"),
    layout.NotEmptyError("/consumers/g"),
    layout.MultiFailedError(2, "/consumers/g", layout.NoNodeError("/consumers/g")),
    rebalancing.RebalanceError("could not"),
    rebalancing.MissingTopicError("t"),
    rebalancing.AssignmentRefusedError("roundrobin", "0.8.2", "subscriptions differ"),
    rebalancing.AssignorFailedError("range", "it gave t-0 to nobody"),
    rebalancing.DeposedError("operation 1 on /consumers/g/coordination/round failed"),
    rebalancing.UnknownAssignorError("nope", "there is no such assignor"),
    rebalancing.UnreadableUserDataError("byte 4: 8 bytes wanted, 2 left"),
    rebalancing.StrategyMismatchError("g", "range", ("roundrobin 1.0",), "partition.assignment.strategy=roundrobin"),
    rebalancing.UnsupportedRegexError("a[b", "it does not compile"),
    rebalancing.PartitionOwnedError({TopicPartition("t", n): f"c-{n}" for n in range(5)}),
    rebalancing.RegistrationConflictError("/consumers/g/ids/c", 6000),
    rebalancing.RegistrationConflictError("/consumers/g/ids/c", 6000, is_permanent=True),
    rebalancing.PartlyBegunError({TP: "no number"}),
    rebalancing.UnexpectedError("commit: KeyError: 7"),
    rebalancing.ConsumerRebalanceFailedError("c", 4, "owned by others: t/3 by d-0"),
    consumer.StreamError("cannot go on"),
    consumer.ConsumerTimeoutError(500),
    consumer.MessageStreamsExistError(),
    consumer.ConsumerClosedError(),
    consumer.NotJoinedError(),
    consumer.ForkedConsumerError(),
    consumer.StreamInUseError("worker-1"),
    consumer.NotAssignedError(TopicPartition("t", 1)),
    consumer.SegmentFileError("/logs/t-0/0.log", "cannot be read: Permission denied"),
    consumer.CorruptSegmentError("t-0/0.log", 61, "the checksum is another", 7),
    consumer.CorruptSegmentError("00000000000000000000.log", 61, "the checksum is another"),
    consumer.CallInProgressError(),
    consumer.KafkaError("broker at fault"),
    consumer.ProduceError("t", 1, 2, "timed out"),
    consumer.BrokersUnavailableError("no broker is registered"),
    consumer.BrokerRefusedError("h:9093", "authentication failed"),
    consumer.GroupRefusedError("g", "group authorization failed"),
    consumer.MissingListenerError("PLAINTEXT", ("SSL", "SASL_SSL")),
    consumer.FetchError(TP, "the message is corrupt"),
    consumer.FetchError(None, "the message is corrupt"),
    consumer.CorruptRecordsError(TP, 7, "its CRC does not match"),
    consumer.MalformedResponseError("Fetch", "byte 3 of 9: it ends too early"),
    consumer.UnsubscribeError("g_a", 5.0),
    consumer.PositionError("a partition that stands still"),
    consumer.OffsetOutOfRangeError(TP, 5, 10, 20),
    consumer.NoCommittedOffsetError(TP, 10, 20),
    consumer.NoSuchPartitionError(TP, 3),
    consumer.OffsetError("wrong"),
    consumer.OffsetsNotCommittedError("g", {TP: "no", TopicPartition("u", 0): "nobody asked"}),
    consumer.CommitFailedError("g", (TP, TopicPartition("u", 0)), "no coordinator"),
    consumer.GroupOffsetsUnavailableError("g", "no coordinator"),
    consumer.EmbeddedError("no server"),
    consumer.JavaMissingError("there is no java on PATH"),
    consumer.JarsUnavailableError("Kafka 1.1.1", "no network"),
    consumer.ServerStartError("kafka 1.1.1", "it ended with code 1", ""),
    consumer.PortInUseError("kafka 1.1.1", 9092),
    consumer.MetricsServerError("127.0.0.1", 9308, "something listens there"),
    consumer.AdminError("cannot be done"),
    consumer.NoSuchGroupError("g"),
    consumer.NoSuchTopicError("t"),
    consumer.ActiveGroupError("g", ("g_a", "g_b", "g_c", "g_d")),
    changing.ChangeError("refused"),
    changing.BadOffsetFileError("f", ((3, "it is no offset"), (5, "no"), (6, "no"), (7, "no"))),
    changing.OffsetsOutsideLogError(((TP, 5, 10, 20),)),
    changing.NoOffsetToShiftError((TP,)),
    changing.UnknownLogEndsError((TP,)),
    changing.UnknownLogEndsError((TP,), "no broker is registered"),
    changing.UnreadableOffsetsError("g", ("/consumers/g/offsets/t/3 holds b'x'",)),
    changing.GroupDeletedError("g"),
    changing.OffsetsChangedError("g", TP),
    changing.TopicMadeAnewError("g", "t", (TopicPartition("u", 0),), 9),
    changing.OffsetsHalfWrittenError("g", (TP,), 2, 9, "connection lost"),
    changing.ResetRequestError("g", "g_c1 does not answer"),
    changing.BackupError("f.json", "no space left on device"),
    changing.GroupChangedError("g", "/consumers/g/offsets/t/0", 0, 5),
    changing.GroupChangedError("g", "/consumers/g/ids/c", 3, 5),
    changing.GroupHeldError("g", ("/consumers/g/owners/t/0",)),
    changing.DamagedRecordError("g", "/consumers/g/migration holds b'x': it is no record"),
    changing.OpenMigrationError("g", "applied"),
    changing.NothingOfTopicError("t", ("g", "h")),
    consumer.MigrationRefusedError("g", ("1 member is in ZooKeeper", "3 partitions are blocked")),
    consumer.MigrationIncompleteError("g", "Kafka", 1, 2, "no coordinator"),
    consumer.MigrationIncompleteError("g", "Kafka", 1, 2, "no answer", is_unanswered=True),
]


def classes_of(module) -> dict[str, type[Exception]]:
    return {
        name: c
        for name, c in vars(module).items()
        if inspect.isclass(c) and issubclass(c, Exception) and c.__module__ == module.__name__ and name[0] != "_"
    }


def facts(error: BaseException) -> tuple[object, ...]:
    """Return an error's type, arguments and attributes, also of errors inside it; errors compare by identity."""
    return (
        type(error),
        *(facts(a) if isinstance(a, BaseException) else a for a in error.args),
        {k: facts(v) if isinstance(v, BaseException) else v for k, v in vars(error).items()},
    )


def drawn_tree(module) -> dict[str, tuple[str, bool]]:
    """Return the tree in the module's docstring: {class: (its parent, whether it is marked retriable)}."""
    found, above = {}, []
    for line in module.__doc__.splitlines():
        entry = re.match(r"( *)(\w+Error(?:, \w+Error)*)(?: \(.*\))?(?:  +(.*))?$", line)
        if entry is None:
            continue
        depth = len(entry[1])
        above = [(d, name) for d, name in above if d < depth]
        for name in entry[2].split(", "):
            found[name] = (above[-1][1] if above else "", (entry[3] or "").startswith("retriable;"))
        above.append((depth, name))
    return found


def public_base(error_class: type[Exception]) -> str:
    base = next(c for c in error_class.__mro__[1:] if not c.__name__.startswith("_"))
    return "" if base is Exception else base.__name__


def test_every_error_class_has_a_sample():
    sampled = {type(sample) for sample in SAMPLES}
    assert sampled == {c for module in MODULES for c in classes_of(module).values()}


def test_public_errors_are_defined_in_the_errors_modules_only():
    stray = [
        f"{source}: {node.name}"
        for source in SOURCES
        if source.name != "errors.py"
        for node in ast.walk(ast.parse((ROOT / source).read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    ]
    assert stray == []


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickle(error, protocol):
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert facts(copy) == facts(error)
    assert str(copy) == str(error)


def longer(value):
    """Return the value with every name made very long, as any client may name a znode."""
    match value:
        case TopicPartition():
            return TopicPartition(longer(value.topic), value.partition)
        case str():
            return value + "x" * 40_000
        case tuple():
            return tuple(map(longer, value))
        case _:
            return value


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_shows_a_bounded_part_of_a_name_that_a_stranger_gave(error):
    own = isinstance(error, consumer.ServerStartError)  # its text holds the log of a server that we started
    longest = type(error)(*(error.args if own else map(longer, error.args)))
    assert len(str(longest)) < 1100 + 20_000 * own


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_reads_as_one_line(error):
    assert str(error)
    assert len(str(error).splitlines()) == 1


def test_only_the_quoted_log_of_a_server_takes_more_lines():
    error = consumer.ServerStartError("kafka 1.1.1", "it ended with code 1", "first\nlast")
    assert str(error).splitlines()[1:] == ["first", "last"]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_tree_at_the_top_of_the_module_is_the_tree(module):
    drawn = drawn_tree(module)
    if module is not layout:
        assert drawn.pop("LegacyConsumerError") == ("", False)
    assert drawn == {name: (public_base(c), c.retriable) for name, c in classes_of(module).items()}
