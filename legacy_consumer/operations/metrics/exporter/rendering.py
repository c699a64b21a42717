"""Renders Prometheus' text format, version 0.0.4, without a client library, which would take ten times as long.

No I/O. Each metric's lines stand together, after its HELP and TYPE. Label values are escaped once for each group and
topic, not once for each line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from legacy_consumer.operations.admin.led_groups import CLASSIC
from legacy_consumer.operations.metrics import catalogue
from legacy_consumer.operations.metrics.catalogue import Metric
from legacy_consumer.operations.metrics.exporter.cluster_reader import ReadGroup
from legacy_consumer.operations.metrics.exporter.judging import JudgedGroup
from zk_layout.model import TopicPartition


def render_groups(
    groups: Sequence[JudgedGroup], ends: Mapping[TopicPartition, int], *, with_partitions: bool = True
) -> bytes:
    """Return the part of a page that stays the same until the next refresh."""
    lines: list[str] = []
    _render_totals(groups, lines)
    if with_partitions:
        _render_partitions(groups, lines)
        _render_ends(ends, lines)
    return "".join(lines).encode()


def render_samples(metric: Metric, samples: Iterable[tuple[Sequence[str], float]]) -> str:
    """Return one metric with a line for each (label values, value); an empty text without samples."""
    lines = [f"{metric.name}{_labels(metric.labels, values)} {_number(value)}\n" for values, value in samples]
    return _head(metric) + "".join(lines) if lines else ""


def escaped(value: str) -> str:
    """Return a label value with backslash, quote and line feed escaped, and characters that are no UTF-8 replaced."""
    if value.isalnum():
        return value
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.encode("utf-8", "replace").decode()


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = ",".join(f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _head(metric: Metric) -> str:
    meaning = metric.meaning.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {metric.name} {meaning}\n# TYPE {metric.name} {metric.kind.value}\n"


def _render_totals(groups: Sequence[JudgedGroup], lines: list[str]) -> None:
    readable = [one for one in groups if one.read.problem is None]
    for metric, value in (
        (catalogue.GROUP_MEMBERS, lambda one: one.read.members),
        (catalogue.GROUP_UNREADABLE, lambda one: one.read.unreadable),
        (catalogue.GROUP_PARTITIONS, lambda one: len(one.consumed)),
        (catalogue.GROUP_UNOWNED, lambda one: one.unowned),
        (catalogue.GROUP_LAG, lambda one: one.lag),
    ):
        found = [((one.read.group,), value(one)) for one in readable]
        lines.append(render_samples(metric, [(labels, number) for labels, number in found if number is not None]))
    brokers = [((one.read.group, member), many) for one in readable for member, many in one.brokers.items()]
    lines.append(render_samples(catalogue.GROUP_MEMBER_BROKERS, brokers))
    verdicts = [((one.read.group, one.verdict.value), 1) for one in groups]
    lines.append(render_samples(catalogue.GROUP_VERDICT, verdicts))
    counts = [((one.read.group, kind.value), many) for one in groups for kind, many in one.verdicts.items()]
    lines.append(render_samples(catalogue.GROUP_VERDICTS, counts))
    _render_coordination([one.read for one in readable], lines)


def _render_coordination(groups: Sequence[ReadGroup], lines: list[str]) -> None:
    ruled = [((one.group, CLASSIC if one.led is None else one.led.coordination), 1) for one in groups]
    led = [(one.group, one.led) for one in groups if one.led is not None]
    lines.append(render_samples(catalogue.GROUP_COORDINATION, ruled))
    lines.append(render_samples(catalogue.GROUP_GENERATION, [((group,), one.generation) for group, one in led]))
    lines.append(render_samples(catalogue.GROUP_LED_STATE, [((group, one.state), 1) for group, one in led]))
    lines.append(render_samples(catalogue.GROUP_HAS_LEADER, [((group,), one.leader is not None) for group, one in led]))


def _render_partitions(groups: Sequence[JudgedGroup], lines: list[str]) -> None:
    lag: list[str] = []
    committed: list[str] = []
    committed_at: list[str] = []
    owned: list[str] = []
    verdicts: list[str] = []
    names = [
        metric.name
        for metric in (
            catalogue.PARTITION_LAG,
            catalogue.PARTITION_COMMITTED,
            catalogue.PARTITION_COMMITTED_AT,
            catalogue.PARTITION_OWNED,
            catalogue.PARTITION_VERDICT,
        )
    ]
    lag_name, committed_name, committed_at_name, owned_name, verdict_name = names
    topics: dict[str, str] = {}
    for group in groups:
        name = escaped(group.read.group)
        for one in group.partitions:
            row = one.row
            topic = topics.get(row.topic) or topics.setdefault(row.topic, escaped(row.topic))
            where = f'{{group="{name}",topic="{topic}",partition="{row.partition}"'
            if one.lag is not None:
                lag.append(f"{lag_name}{where}}} {one.lag}\n")
            if row.committed is not None:
                committed.append(f"{committed_name}{where}}} {row.committed}\n")
            if row.committed_at_ms is not None:
                committed_at.append(f"{committed_at_name}{where}}} {row.committed_at_ms / 1000}\n")
            owned.append(f"{owned_name}{where}}} {one.owned:d}\n")
            if one.verdict is not None:
                verdicts.append(f'{verdict_name}{where},verdict="{one.verdict.value}"}} 1\n')
    for metric, found in (
        (catalogue.PARTITION_LAG, lag),
        (catalogue.PARTITION_COMMITTED, committed),
        (catalogue.PARTITION_COMMITTED_AT, committed_at),
        (catalogue.PARTITION_OWNED, owned),
        (catalogue.PARTITION_VERDICT, verdicts),
    ):
        if found:
            lines.append(_head(metric))
            lines += found


def _render_ends(ends: Mapping[TopicPartition, int], lines: list[str]) -> None:
    samples = [((tp.topic, str(tp.partition)), float(end)) for tp, end in sorted(ends.items())]
    lines.append(render_samples(catalogue.TOPIC_END, samples))
