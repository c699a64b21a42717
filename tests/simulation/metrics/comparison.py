"""Compares every metric of docs/metrics.md with the truth of a scene.

For each scrape it computes the expected page from the scene's own knowledge. A sample that is only on one of the two
pages is wrong. Where several values are right, as for a member that cannot know yet that its connection is cut, the
expected page has a range, and the sample may be absent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from legacy_consumer.operations.metrics.catalogue import EXPORTER_METRICS, MEMBER_METRICS, METRICS, NEVER, Kind
from legacy_consumer.operations.metrics.health import STUCK_AFTER_S
from legacy_consumer.operations.metrics.lag_sample import ANSWER_S, MAX_AGE_S
from rebalance.counters import BUCKETS_S
from rebalance.led.standing import LedState
from rebalance.machine import Phase
from tests.simulation.metrics.brokers import BROKERS
from tests.simulation.metrics.scene import NOTICE_S, SESSION_S, counting_offset

LEASE_S = SESSION_S * 0.95
P = "legacy_consumer_"
MEMBER, GROUP, PARTITION, EXPORTER = f"{P}member_", f"{P}group_", f"{P}group_partition_", f"{P}exporter_"
_NEVER_ABSENT = [
    {f"{metric.name}{'_count' * (metric.kind is Kind.HISTOGRAM)}" for metric in some if metric.absent == NEVER}
    for some in (MEMBER_METRICS, EXPORTER_METRICS)
]
_COUNTERS = {metric.name for metric in METRICS if metric.kind is Kind.COUNTER}


@dataclass(frozen=True)
class Within:
    """An expected value from low to high; optional: the sample may be absent."""

    low: float
    high: float
    optional: bool = False

    def takes(self, value):
        return self.optional if value is None else self.low <= value <= self.high


ANY = Within(0, float("inf"))
BIT = Within(0, 1)


class WrongMetricError(AssertionError):
    """A sample of a page is wrong, missing or unexpected."""


class Comparison:
    """A judge that compares every scrape of a scene. Raises: WrongMetricError."""

    def __init__(self):
        self.compared = Counter()
        """{metric: number of samples compared}."""
        self._last = {}
        self._looks = {}
        self._moves = {}

    def __call__(self, scene, look, pages):
        wrong = []
        for member in scene.members:
            if member.name in pages:
                self._note(scene, member)
                expected = self._member(scene, look, member, pages[member.name])
                wrong += self._compare(member.name, member, expected, pages[member.name])
        if "exporter" in pages:
            wrong += self._compare("exporter", None, self._exporter(scene, pages["exporter"]), pages["exporter"])
        wrong += _sums(scene, pages) + _absent(pages)
        if wrong:
            raise WrongMetricError(f"at {scene.clock.now:.0f} s:\n" + "\n".join(wrong))

    def _compare(self, instance, life, expected, page):
        wrong = []
        for key in sorted(expected.keys() | page.keys()):
            value, truth = page.get(key), expected.get(key)
            if not (truth.takes(value) if isinstance(truth, Within) else truth == value):
                wrong.append(f"{instance}: {key[0]}{dict(key[1])} is {_text(value)}, and should be {_text(truth)}")
            self.compared[key[0]] += value is not None
            if key[0] in _COUNTERS and value is not None:
                last = self._last.get((instance, life, key), 0)
                if value < last:
                    wrong.append(f"{instance}: {key[0]}{dict(key[1])} fell from {last} to {value}")
                self._last[instance, life, key] = value
        return wrong

    # Members.

    def _note(self, scene, member):
        """Keep the truth of this moment: a member samples lags at a scrape, and later scrapes may show that sample."""
        seen = {tp: end for tp, end in scene.brokers.ends.items() if member.client.sees(tp)}
        self._looks[member, scene.clock.now] = (
            seen,
            dict(member.consumed),
            dict(member.lives),
            member.client.is_waited_for,
        )

    def _member(self, scene, look, member, page):
        now = scene.clock.now
        who = {"group": "g", "consumer_id": member.id}
        made = {}

        def put(name, value, **labels):
            made[f"{MEMBER}{name}", tuple(sorted({**who, **labels}.items()))] = value

        def said(name, **labels):
            return page.get((f"{MEMBER}{name}", tuple(sorted({**who, **labels}.items()))))

        silent_s = 0.0 if member.cut_at is None else now - member.cut_at
        leased = said("leased")
        phases = {phase: said("phase", phase=phase.value) for phase in Phase}
        for phase in Phase:
            put("phase", BIT, phase=phase.value)
        if Counter(phases.values()) != {1: 1, 0: len(Phase) - 1}:
            put("phase", None, phase="one of them")
        stuck = member.coordinator.stuck_since
        put("alive", stuck is None or now - stuck <= STUCK_AFTER_S)
        put("connected", 1 if not silent_s else BIT if silent_s <= NOTICE_S + 1 else 0)
        put("leased", 1 if not silent_s and member.is_settled else BIT if silent_s < LEASE_S else 0)
        put("settled_timestamp_seconds", Within(0, now))
        mine = [tp for tp, owner in look.owners.items() if owner == member.id]
        if leased:
            # a leased session has not ended, so the member owns what its owner znodes say
            for topic, many in Counter(tp.topic for tp in mine).items():
                put("owned_partitions", many, topic=topic)
        put("held_partitions", Within(0, scene.held_by_id.get(member.id, 0)))
        put("in_hand_seconds", 0 if member.hand_since is None else now - member.hand_since)
        unasked = now - (member.asked_at if member.hand_since is None else member.hand_since)
        may_ask = member.is_settled and member.lives
        put("unasked_seconds", unasked if may_ask or member.hand_since is not None else Within(0, unasked))
        for outcome in ("moved", "unchanged"):
            put("rebalances_total", ANY, outcome=outcome)
        put("rebalances_total", Within(0, member.troubles), outcome="degraded")
        self._compare_moves(member, said("rebalances_total", outcome="moved"), put)
        ended = said("rebalances_total", outcome="moved") + said("rebalances_total", outcome="unchanged")
        for bound in (*map(str, BUCKETS_S), "+Inf"):
            put("rebalance_duration_seconds_bucket", Within(0, ended), le=bound)
        put("rebalance_duration_seconds_count", ended)
        put("rebalance_duration_seconds_sum", Within(0, now - member.joined_at))
        put("rebalance_failures_total", Within(0, 1000 * member.troubles))
        put("ownership_conflicts_total", ANY)
        for event, many in member.events.items():
            # events wait for a turn of the member's coordinator
            put("session_events_total", many if stuck is None else Within(0, many), event=event)
        put("session_events_total", 0, event="auth_failed")
        put("foreign_commits_total", Within(0, member.foreign))
        for name in ("fetch_errors", "listener_errors", "unexpected_errors"):
            put(f"{name}_total", 0)
        put("commits_total", ANY, outcome="done")
        put("commits_total", Within(0, 1000 * member.troubles), outcome="failed")
        self._put_led(scene, member, page, put)
        for what in ("consumed", "committed"):
            for topic, many in member.counted[what].items():
                put(f"{what}_messages_total", many, topic=topic)
        if leased:
            self._put_lags(scene, member, said("lag_age_seconds"), put)
        return made

    def _put_led(self, scene, member, page, put):
        said = {dict(key[1])["coordination"] for key in page if key[0] == f"{MEMBER}coordination"}
        if not scene.is_led:
            put("coordination", 1, coordination="classic")
            return
        put("coordination", 1, coordination=said.pop() if len(said) == 1 else "leader or classic")
        states = [value for key, value in page.items() if key[0] == f"{MEMBER}led_state"]
        for state in LedState:
            put("led_state", BIT if sum(states) == 1 else "one of them", state=state.value)
        leader, generation = scene.led_by(), scene.generation()
        knows = member.cut_at is None and member.coordinator.stuck_since is None
        leads = leader == member.id
        put("leads", leads if knows else BIT)
        put("generation", generation if knows else Within(0, generation))
        told = {dict(key[1])["state"] for key in page if key[0] == f"{MEMBER}group_state"}
        for state in told if leads or not knows else ():
            put("group_state", 1, state=state)
        if len(told) != 1 and leads and knows:
            put("group_state", 1, state="one of them")

    def _put_lags(self, scene, member, age, put):
        now = scene.clock.now
        for tp, consumed in member.consumed.items():
            where = {"topic": tp.topic, "partition": str(tp.partition)}
            if consumed is not None:
                put("consumed_offset", consumed, **where)
            if (committed := scene.counting_offset(tp)) is not None:
                put("committed_offset", committed if not member.foreign else ANY, **where)
        if age is None:
            # the member has no sample, or only one that is too old
            if member.consumed and not member.client.is_waited_for:
                put("lag_age_seconds", ANY)
            return
        put("lag_age_seconds", Within(0, MAX_AGE_S + ANSWER_S))
        ends, consumed, lives, waits = self._looks.get((member, now - age), ({}, {}, {}, False))
        for tp in member.consumed:
            where = {"topic": tp.topic, "partition": str(tp.partition)}
            if not member.client.is_waited_for and lives.get(tp) != member.lives[tp]:
                put("log_end_offset", "asked for at once, for it has been assigned since", **where)
            if lives.get(tp) != member.lives[tp] or (tp not in ends and not waits):
                continue
            end = ends.get(tp)
            if waits:
                # a member that waits for brokers may get an answer from any moment since
                end = Within(0, scene.brokers.ends.get(tp, 0), optional=True)
            put("log_end_offset", end, **where)
            if consumed[tp] is None:
                if not member.client.is_waited_for and member.consumed[tp] is not None:
                    put("lag", "asked for at once, for its position is known now", **where)
            elif waits:
                put("lag", Within(0, max(0, end.high - consumed[tp]), optional=True), **where)
            elif consumed[tp] <= end:
                # a position after the log's end gives no lag: the member may continue at another offset
                put("lag", end - consumed[tp], **where)

    def _compare_moves(self, member, moved, put):
        """Check that rebalances which moved partitions and changes of owner znodes are counted together."""
        before = self._moves.get(member, (0, 0))
        self._moves[member] = (moved, member.moves)
        if member.is_settled and member.cut_at is None and (moved > before[0]) is not (member.moves > before[1]):
            put("rebalances_total", Within(moved + 1, moved + 1), outcome="moved")

    # The exporter.

    def _exporter(self, scene, page):
        made = {}

        def put(name, value, **labels):
            made[name, tuple(sorted(labels.items()))] = value

        now, read, told = scene.clock.now, scene.read, scene.told
        exporter = scene.exporter
        [info] = [key for key in page if key[0] == f"{EXPORTER}info"]
        made[info] = 1
        overdue_s = 2 * scene.refresh_s + 10
        for source, at in (("zookeeper", read), ("brokers", told)):
            if scene.up[source] is None:
                continue
            recent = at is not None and now - at.at < overdue_s
            put(f"{EXPORTER}up", scene.up[source] and recent, source=source)
            if at is not None:
                put(f"{EXPORTER}data_age_seconds", now - at.at, source=source)
        for outcome, many in scene.refreshes.items():
            put(f"{EXPORTER}refreshes_total", many, outcome=outcome)
        put(f"{EXPORTER}zookeeper_reads_total", scene.exporter_store.znodes)
        put(f"{EXPORTER}zookeeper_batches_total", scene.exporter_store.batches)
        body = b"".join(exporter.page(False).parts[1:])
        put(f"{EXPORTER}page_bytes", len(body))
        if read is None:
            return made
        for step in ("zookeeper", "brokers", "judge", "render"):
            put(f"{EXPORTER}refresh_duration_seconds", ANY, step=step)
        ends = {tp: read.ends[tp] for tp in read.wanted if tp in read.seen and read.brokers_answer}
        put(f"{EXPORTER}unknown_log_ends", len(read.wanted) - len(ends))
        for tp, end in ends.items():
            put(f"{P}topic_log_end_offset", end, topic=tp.topic, partition=str(tp.partition))
        rows = read.wanted | read.offsets.keys() | read.owners.keys()
        put(f"{EXPORTER}partitions", len(rows))
        put(f"{EXPORTER}groups", int(bool(read.ids)), state="active")
        put(f"{EXPORTER}groups", int(not read.ids), state="idle")
        self._put_group(read, ends, rows, page, put)
        if not read.is_forbidden:
            is_led = scene.is_led and any(topics is not None for topics in read.ids.values())
            put(f"{GROUP}coordination", 1, group="g", coordination="leader" if is_led else "classic")
            if is_led:
                put(f"{GROUP}generation", read.generation, group="g")
                put(f"{GROUP}has_leader", read.leader is not None, group="g")
                said = [key for key in page if key[0] == f"{GROUP}led_state"]
                made.update({key: 1 if len(said) == 1 else "one of them" for key in said})
        return made

    def _put_group(self, read, ends, rows, page, put):
        if read.is_forbidden:
            put(f"{GROUP}verdict", 1, group="g", verdict="error")
            return
        consumed = {tp for tp in read.wanted if tp.topic in read.consumed_topics}
        lags = {tp: true_lag(read, ends, tp) for tp in rows}
        owned = {tp: read.owners.get(tp) in read.ids for tp in rows}
        verdicts = Counter()
        for tp in rows:
            where = {"group": "g", "topic": tp.topic, "partition": str(tp.partition)}
            if lags[tp] is not None:
                put(f"{PARTITION}lag", lags[tp], **where)
            if tp in read.offsets:
                if counting_offset(read.offsets, read.topics, tp) is not None:
                    put(f"{PARTITION}committed_offset", counting_offset(read.offsets, read.topics, tp), **where)
                put(f"{PARTITION}committed_timestamp_seconds", read.offsets[tp][1], **where)
            put(f"{PARTITION}owned", owned[tp], **where)
            if tp not in consumed:
                continue
            said = [dict(key[1])["verdict"] for key in page if key[0] == f"{PARTITION}verdict" and _is_of(key, where)]
            allowed = allowed_verdicts(read, ends, tp, lags[tp], owned=owned[tp])
            verdict = said[0] if len(said) == 1 and said[0] in allowed else f"one of {sorted(allowed)}"
            verdicts[verdict] += 1
            put(f"{PARTITION}verdict", 1, **where, verdict=verdict)
        put(f"{GROUP}members", len(read.ids), group="g")
        for consumer_id in read.ids:
            led_by = {tp.partition % BROKERS for tp in read.wanted if read.owners.get(tp) == consumer_id}
            put(f"{GROUP}member_brokers", len(led_by), group="g", consumer_id=consumer_id)
        put(f"{GROUP}unreadable_members", sum(topics is None for topics in read.ids.values()), group="g")
        put(f"{GROUP}partitions", len(consumed), group="g")
        put(f"{GROUP}unowned_partitions", sum(not owned[tp] for tp in consumed), group="g")
        known = [lags[tp] for tp in consumed]
        if None not in known:
            put(f"{GROUP}lag", sum(known), group="g")
        for verdict, many in verdicts.items():
            put(f"{GROUP}verdict_partitions", many, group="g", verdict=verdict)
        put(f"{GROUP}verdict", 1, group="g", verdict=_worst(verdicts))


def true_lag(read, ends, tp):
    """Return how many messages a member would still read; None if it is unknown."""
    if tp not in ends:
        return None
    begin, end = read.begins[tp], ends[tp]
    offset = counting_offset(read.offsets, read.topics, tp)
    if offset is None:
        # an offset of an earlier topic: all messages. No offset: auto.offset.reset decides, unless the log is empty
        return end - begin if tp in read.offsets or begin == end else None
    if offset > end:
        # a member would begin where auto.offset.reset says
        return None
    # no member reads what retention has deleted
    return min(end - offset, end - begin)


def allowed_verdicts(read, ends, tp, lag, *, owned):
    """Return the verdicts that are right for a partition."""
    offset = counting_offset(read.offsets, read.topics, tp)
    if offset is None and tp in read.offsets:
        return {"error"}
    if tp not in ends:
        return {"unknown"} if offset is not None else {"unknown", "ok"}
    if offset is None:
        return {"ok"} if lag == 0 else {"unknown"} if owned else {"stop"}
    if not read.begins[tp] <= offset <= ends[tp]:
        return {"error"}
    if lag == 0:
        return {"ok"}
    return {"ok", "warning", "stall", "rewind"} if owned else {"stop"}


def _worst(verdicts):
    if verdicts.keys() & {"rewind", "stall", "stop", "error"}:
        return "error"
    return next((kind for kind in ("warning", "unknown") if kind in verdicts), "ok")


def _is_of(key, where):
    return where.items() <= dict(key[1]).items()


def _sums(scene, pages):
    """Return an error for each topic of which members together say that they own more partitions than it has."""
    owned = Counter()
    for member in scene.members:
        for (name, labels), value in pages.get(member.name, {}).items():
            if name == f"{MEMBER}owned_partitions":
                owned[dict(labels)["topic"]] += value
    return [
        f"members own {many:.0f} partitions of {topic}, and there are {scene.topics[topic][0]}"
        for topic, many in owned.items()
        if topic in scene.topics and many > scene.topics[topic][0]
    ]


def _absent(pages):
    """Return an error for each metric that is absent although the catalogue says that it never is."""
    return [
        f"{instance}: {name} is absent"
        for instance, page in pages.items()
        for name in _NEVER_ABSENT[instance == "exporter"] - {name for name, _ in page}
    ]


def _text(value):
    return "absent" if value is None else str(value)
