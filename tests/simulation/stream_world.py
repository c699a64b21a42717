"""A streaming query over zk_messages as Spark drives it, with ZooKeeper, brokers and time in memory.

A world draws its events from its seed. Topics are created, deleted, created again, truncated and written to. One broker
or all of them report a lower log end for a while. Transactions are open for a while. The connection to ZooKeeper is
lost, and sessions expire. Options change between runs, isolation.level among them. The query stops in order, or is
killed at any step between plan, sink and Spark's commit log. Its checkpoint is lost, damaged, or replaced by an older
one. Members join the group beside the query. Logs hold rows (topic, life, partition, offset), so a topic that is
created again has other rows.

The code under test is the driver's side: the reader's answers to each trigger, StreamDriver with all that it uses, and
how a task continues after a failure.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from legacy_consumer.errors import NoSuchTopicError, OffsetOutOfRangeError
from spark_source.errors import CheckpointError, DataLossError, LiveGroupError, RangeReadError
from spark_source.messages import reader, stream_driver
from spark_source.messages.cluster import Cluster
from spark_source.messages.options import parse_message_options
from spark_source.messages.stream import ZkMessagesStreamReader
from spark_source.messages.stream_offsets import NOT_BEGUN, from_json, to_json
from zk_layout.errors import ConfigError, ConnectionLostError, LegacyConsumerError, SessionExpiredError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

GROUP = "g"
TOPICS = ("a", "b", "c")
MOST_BATCHES = 40
"""The number of batches that is enough to read the rest at the end of a world."""


class BrokenPromiseError(Exception):
    """An invariant does not hold."""


class KilledError(BaseException):
    """The driver's process is killed."""


@dataclass(slots=True)
class Log:
    """The log of one partition of a topic. life: the number of the topic's creation.

    said: the lower end that its broker reports until said_until; None = the true one. open_from: the first offset of a
    transaction that is open until open_until, and then committed.
    """

    life: int
    begin: int = 0
    end: int = 0
    said: int | None = None
    said_until: float = 0.0
    open_from: int = 0
    open_until: float = 0.0


@dataclass(slots=True)
class Run:
    """The options that the query runs with until it ends."""

    topics: tuple[str, ...]
    fail: bool
    claim: bool
    most: int | None
    now_only: bool
    once: bool = False
    committed: bool = False


@dataclass(slots=True)
class Checkpoint:
    """Spark's checkpoint of a query. offsets: the end of each planned batch. done: how many batches are committed."""

    name: int
    offsets: list[str] = field(default_factory=list)
    done: int = 0


class World:
    """The history of one seed; run() raises BrokenPromiseError if an invariant breaks. log: the events, as text."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now = 0.0
        self.log: list[str] = []
        self.zookeeper = MemoryZooKeeper(monotonic=self.monotonic)
        self.operator = MemoryStore(self.zookeeper)
        self.operator.start()
        self.operator.ensure_path("/brokers/topics")
        self.operator.ensure_path("/brokers/ids")
        self.operator.ensure_path("/consumers")
        self.logs: dict[TopicPartition, Log] = {}
        self.lives = 0
        self.sink: dict[tuple[str, int, int, int], tuple[int, int]] = {}
        self.batches: dict[tuple[int, int], set] = {}
        self.group_begins: dict[tuple[str, int, int], int] = {}
        self.foreign: dict[TopicPartition, int] = {}
        self.checkpoint = Checkpoint(0)
        self.run_now: Run | None = None
        self.driver = None
        self.reader = None
        self.store = None
        self.member = None
        self.has_seen_members = False
        self.damaged = None
        self.events = 0
        self.ever_chosen: set[str] = set()
        self.has_loss = False
        self.has_anew = False
        self.has_long_transaction = False
        self.away_until = 0.0
        self.allows_loss = rng.random() < 0.7
        self.busy = rng.choice((0.02, 0.1, 0.3))
        self.kill_odds = rng.choice((0.0, 0.05, 0.15))
        self.is_settling = False
        self.step = "open"

    # ------------------------------------------------------------------ the clock, as the code under test sees it

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def wait(self, event, timeout_s: float) -> bool:
        self.now += timeout_s
        if self.store is not None and self.away_until and self.now >= self.away_until:
            self.away_until = 0.0
            self.zookeeper.resume(self.store)
        if not self.is_settling and self.rng.random() < self.busy / 4:
            self.happen()
        return False

    # ------------------------------------------------------------------ the brokers, as LogOffsets

    def earliest(self, partitions):
        self._maybe_happen()
        return {tp: self.logs[tp].begin for tp in partitions if tp in self.logs}

    def latest(self, partitions):
        self._maybe_happen()
        return {tp: self.readable_end(tp) for tp in partitions if tp in self.logs}

    def at_time(self, partition, time_ms):
        raise AssertionError(f"no world asks for offsets by time, and {partition} was asked for at {time_ms}")

    def close(self) -> None:
        pass

    def said_end(self, tp) -> int:
        log = self.logs[tp]
        return log.end if log.said is None or self.now >= log.said_until else log.said

    def readable_end(self, tp) -> int:
        """Return the end of the messages that the query may read with its isolation.level."""
        log, end = self.logs[tp], self.said_end(tp)
        return min(end, log.open_from) if self.run_now.committed and self.now < log.open_until else end

    def _maybe_happen(self) -> None:
        if not self.is_settling and self.rng.random() < self.busy / 2:
            self.happen()

    # ------------------------------------------------------------------ events in the cluster

    def happen(self) -> None:
        happening = self.rng.choice(
            (
                self.write,
                self.write,
                self.write,
                self.say_less,
                self.transact,
                self.create,
                self.widen,
                self.zookeeper_away,
                self.expire,
                self.join,
            )
            + ((self.delete, self.make_anew, self.cut, self.cut) if self.allows_loss else (self.cut_unknown,) * 2)
        )
        self.events += 1
        happening()

    def note(self, text: str) -> None:
        self.log.append(f"{self.now:8.1f} {text}")

    def existing(self) -> list[str]:
        return sorted({tp.topic for tp in self.logs})

    def create(self) -> None:
        missing = [topic for topic in TOPICS if topic not in self.existing()]
        if missing:
            self._create(self.rng.choice(missing), self.rng.choice((1, 1, 2)))

    def _create(self, topic: str, partitions: int) -> None:
        self.lives += 1
        document = {"version": 1, "partitions": {str(n): [0] for n in range(partitions)}}
        self.operator.create(f"/brokers/topics/{topic}", json.dumps(document).encode())
        for number in range(partitions):
            self.logs[TopicPartition(topic, number)] = Log(self.lives, end=self.rng.choice((0, 5, 30)))
        self.note(f"{topic} is created, {partitions} partitions, life {self.lives}")
        if self.rng.random() < 0.2:
            self._read_before(TopicPartition(topic, 0))

    def _read_before(self, tp) -> None:
        """Commit an offset for the group: it has read a part of the partition before the query begins."""
        log, path = self.logs[tp], f"/consumers/{GROUP}/offsets/{tp.topic}/{tp.partition}"
        stands = log.end // 2
        self.group_begins[tp.topic, log.life, tp.partition] = stands
        if self.operator.exists(path) is None:
            self.operator.create(path, b"%d" % stands, make_parents=True)
        else:
            self.operator.set_data(path, b"%d" % stands)
        self.note(f"the group stands at {stands} in {tp}")

    def widen(self) -> None:
        for topic in self.existing()[:1]:
            own = [tp for tp in self.logs if tp.topic == topic]
            if len(own) < 3:
                document = {"version": 1, "partitions": {str(n): [0] for n in range(len(own) + 1)}}
                self.operator.set_data(f"/brokers/topics/{topic}", json.dumps(document).encode())
                self.logs[TopicPartition(topic, len(own))] = Log(self.logs[own[0]].life, end=4)
                self.note(f"{topic} has a partition more")

    def delete(self) -> None:
        existing = self.existing()
        if existing:
            self._delete(self.rng.choice(existing))

    def _delete(self, topic: str) -> int:
        own = [tp for tp in self.logs if tp.topic == topic]
        self.operator.delete(f"/brokers/topics/{topic}")
        for tp in own:
            del self.logs[tp]
            self.foreign.pop(tp, None)
        self.has_loss |= topic in self.ever_chosen
        self.note(f"{topic} is deleted")
        return len(own)

    def make_anew(self) -> None:
        existing = self.existing()
        if existing:
            topic = self.rng.choice(existing)
            partitions = self._delete(topic)
            self.has_anew = True
            self._create(topic, self.rng.choice((partitions, 1)))

    def write(self) -> None:
        if self.logs:
            tp = self.rng.choice(sorted(self.logs))
            self.logs[tp].end += self.rng.choice((1, 7, 40))
            self.note(f"{tp} grows to {self.logs[tp].end}")

    def cut(self) -> None:
        self._cut(sorted(self.logs))

    def cut_unknown(self) -> None:
        self._cut([tp for tp in sorted(self.logs) if tp.topic not in self.ever_chosen])

    def _cut(self, among) -> None:
        if among:
            tp = self.rng.choice(among)
            log = self.logs[tp]
            log.begin = self.rng.choice((log.begin, (log.begin + log.end) // 2, log.end))
            self.has_loss |= tp.topic in self.ever_chosen or (tp.topic, log.life, tp.partition) in self.group_begins
            self.note(f"{tp} begins at {log.begin} now")

    def say_less(self) -> None:
        """Let brokers report lower log ends for a while, of one partition or of all, as after a restart."""
        all_of_them = self.rng.random() < 0.5
        for tp in sorted(self.logs) if all_of_them else [self.rng.choice(sorted(self.logs) or [None])]:
            if tp is not None:
                log = self.logs[tp]
                if self.now < log.said_until + 5.0:
                    continue
                log.said = max(log.begin, log.end - self.rng.choice((1, 10, 60)))
                log.said_until = self.now + self.rng.choice((0.2, 3.0, 25.0))
                self.note(f"{tp}: its broker says {log.said} until {log.said_until:.1f}")

    def transact(self) -> None:
        """Make the last rows of a log part of a transaction that is not committed yet."""
        if self.logs:
            tp = self.rng.choice(sorted(self.logs))
            log = self.logs[tp]
            if self.now >= log.open_until:
                log.open_from = max(log.begin, log.end - self.rng.choice((1, 10, 60)))
                log.open_until = self.now + self.rng.choice((0.2, 3.0, 200.0))
                self.has_long_transaction |= log.open_until > self.now + 60.0
                self.note(f"{tp}: a transaction is open from {log.open_from} on, until {log.open_until:.1f}")

    def zookeeper_away(self) -> None:
        if self.store is not None and not self.away_until:
            self.zookeeper.suspend(self.store)
            self.away_until = self.now + self.rng.choice((0.3, 2.0))
            self.note("ZooKeeper is away")

    def expire(self) -> None:
        if self.store is not None:
            self.zookeeper.expire(self.store.server_session_id)
            self.note("the session expires")

    def join(self) -> None:
        """Let a JVM member join the group."""
        if self.member is None:
            self.member = f"/consumers/{GROUP}/ids/{GROUP}_jvm-{self.events}"
            self.has_seen_members = True
            self.operator.create(self.member, b"{}", make_parents=True)
            self.note("a member joins the group")

    def leave(self) -> None:
        if self.member is not None:
            self.operator.delete(self.member)
            self.member = None
            self.note("the member leaves")

    # ------------------------------------------------------------------ the query, as Spark runs it

    def begin_run(self, run: Run) -> None:
        """Start the query's process with these options."""
        self.run_now = run
        self.has_seen_members = self.member is not None
        self.step = "open"
        self.ever_chosen.update(run.topics)
        given = {"zookeeper.connect": "memory:1", "topics": ",".join(run.topics), "group.id": GROUP}
        if run.claim:
            given["claimOwnership"] = "true"
        if run.committed:
            given["isolation.level"] = "read_committed"
        options = parse_message_options({**given, "failOnDataLoss": str(run.fail).lower()})
        self.away_until = 0.0
        self.store = MemoryStore(self.zookeeper)
        self.driver = stream_driver.StreamDriver(options, MemoryCluster(options, self.store, self))
        self.reader = OpenedReader(options, self.driver)
        self.note(f"a run begins: {run}")
        self.driver.open()
        if run.now_only:
            self.driver.stop_at_present()

    def end_run(self, *, orderly: bool) -> None:
        driver, store = self.driver, self.store
        self.driver = self.store = self.run_now = None
        if driver is None:
            return
        self.note("the run is stopped" if orderly else "the run is killed")
        if orderly:
            driver.close()
        # after a kill, ZooKeeper ends the session before the query starts again
        self.zookeeper.expire(store.server_session_id)
        store.close()

    def trigger(self) -> bool:
        """Run one trigger as Spark does; False if there was nothing to do. Raises: the error that ends the query."""
        checkpoint = self.checkpoint
        if checkpoint.done == len(checkpoint.offsets):
            self._maybe_die("before the plan")
            start = from_json(json.loads(self._start_text()))
            events, could = self.events, self.unread(start)
            self.step = "advance"
            end = json.dumps(self._latest_offset(events))
            self.step = "tasks"
            self.check_committed()
            if end != self._start_text() and self._is_damaged(start):
                raise BrokenPromiseError("what stands in the damaged checkpoint is believed")
            if end == self._start_text():
                if could and self.events == events and not self.run_now.now_only and not self.away_until:
                    raise BrokenPromiseError(f"nothing is planned, and {could} rows wait")
                return False
            self._maybe_die("after the plan")
            checkpoint.offsets.append(end)
            rows = self._carry_out()
            if not rows and could and self.events == events and not self.run_now.now_only:
                raise BrokenPromiseError(f"a batch without rows, and {could} rows wait")
        else:
            self._carry_out()
        self._maybe_die("before Spark's commit")
        checkpoint.done += 1
        return True

    def _latest_offset(self, events: int) -> dict[str, object]:
        """Return the reader's plan, and check that a query that claims nothing does not commit beside a member."""
        run = self.run_now
        limit = ReadAllAvailable() if run.once else ReadMaxRows(run.most or 2**63 - 1)
        is_beside = self.member is not None and not run.claim
        before = self._all_committed()
        try:
            return self.reader.latestOffset(json.loads(self._start_text()), limit)
        finally:
            if is_beside and self.events == events and self._all_committed() != before:
                raise BrokenPromiseError("the query commits beside a member that came later")

    def _is_damaged(self, start) -> bool:
        """Return whether the batch begins at the damaged entry, and the damaged topic was not created again."""
        if self.damaged is None or self.damaged[1] != self.checkpoint.done:
            return False
        topic = self.damaged[0]
        return topic in self.existing() and not self._is_anew(start, TopicPartition(topic, 0))

    def _all_committed(self):
        return {tp: self.committed(tp) for tp in self.logs}

    def _start_text(self) -> str:
        done = self.checkpoint.done
        return self.checkpoint.offsets[done - 1] if done else json.dumps(to_json(NOT_BEGUN))

    def _carry_out(self) -> int:
        number = self.checkpoint.done
        start, end = (from_json(json.loads(text)) for text in (self._start_text(), self.checkpoint.offsets[number]))
        self.note(f"batch {number}: {dict(start.offsets)} to {dict(end.offsets)}, begins {dict(end.begins)}")
        ranges, _ = self.driver.tasks(start, end)
        self._maybe_die("before the sink")
        if not self.is_settling and self.rng.random() < self.busy:
            self.say_less()
        lives = self.lives
        rows = set()
        for each in ranges:
            read = reader.read_what_is_left(
                self._read,
                each,
                lambda tp=each.partition: self._ask_log(tp),
                fail_on_data_loss=self.run_now.fail,
                patience_s=60.0,
                must_reach_end=True,
                clock=self,
            )
            rows.update(read)
        self._maybe_die("in the sink")
        self._fill(number, rows, same_lives=lives == self.lives)
        return len(rows)

    def _fill(self, number: int, rows: set, *, same_lives: bool) -> None:
        """Write a batch to the sink; a repeated batch replaces the first."""
        key = (self.checkpoint.name, number)
        for row in sorted(rows):
            earlier = self.sink.get(row)
            if earlier is not None and earlier != key and earlier[0] == key[0] and same_lives and not self.has_anew:
                raise BrokenPromiseError(f"{row} comes in batch {number} and came in batch {earlier[1]}")
            self.sink[row] = key
        self.batches[key] = rows
        self.note(f"batch {number}: {len(rows)} rows in the sink")

    def _read(self, wanted):
        """Read the rows of a range, as a task does, as far as the broker's reported end allows."""
        self._maybe_happen()
        tp, position = wanted.partition, wanted.start
        deadline = self.now + 60.0
        while position < wanted.end:
            log = self.logs.get(tp)
            if log is not None:
                end = self.said_end(tp)
                if not log.begin <= position <= end:
                    raise OffsetOutOfRangeError(tp, position, log.begin, end)
                for offset in range(position, min(self.readable_end(tp), wanted.end)):
                    position = offset + 1
                    yield (tp.topic, log.life, tp.partition, offset)
            if position < wanted.end:
                if self.now >= deadline:
                    raise RangeReadError(tp, position, wanted.end, "no message came")
                self.wait(None, 5.0)

    def _ask_log(self, tp):
        return (self.logs[tp].begin, self.said_end(tp)) if tp in self.logs else None

    def _maybe_die(self, where: str) -> None:
        if not self.is_settling and self.rng.random() < self.kill_odds:
            self.note(f"killed {where}")
            raise KilledError

    # ------------------------------------------------------------------ the promises

    def unread(self, start) -> int:
        """Return how many rows could be planned now; 0 while a broker reports a lower end, or a transaction is open."""
        found = 0
        for tp, log in self.logs.items():
            if tp.topic in self.run_now.topics:
                if self.readable_end(tp) != log.end:
                    return 0
                first = self.group_begin(tp, log)
                found += sum(
                    (tp.topic, log.life, tp.partition, offset) not in self.sink
                    for offset in range(max(first, log.begin), log.end)
                    if offset >= start.offsets.get(tp, 0) or self._is_anew(start, tp)
                )
        return found

    def _is_anew(self, start, tp) -> bool:
        stat = self.operator.exists(f"/brokers/topics/{tp.topic}")
        return start.topics.get(tp.topic) != f"topic-czxid=0x{stat.czxid:x}"

    def group_begin(self, tp, log) -> int:
        """Return the offset up to which the group had read before this query first saw the partition."""
        return self.group_begins.get((tp.topic, log.life, tp.partition), 0)

    def committed(self, tp):
        """Return the group's committed offset; None if there is none, or if it is for an earlier topic."""
        path = f"/consumers/{GROUP}/offsets/{tp.topic}/{tp.partition}"
        if self.operator.exists(path) is None:
            return None
        znode = self.operator.get_data(path)
        created = self.operator.exists(f"/brokers/topics/{tp.topic}")
        return int(znode.data) if znode.stat.mzxid > created.czxid else None

    def check_committed(self) -> None:
        """Check that committed messages were read, and that partitions no longer read were not touched."""
        for tp, log in sorted(self.logs.items()):
            offset = self.committed(tp)
            if offset is None:
                continue
            if tp in self.foreign and tp.topic not in self.run_now.topics:
                if offset != self.foreign[tp]:
                    raise BrokenPromiseError(f"{tp} is not read, and {self.foreign[tp]} became {offset}")
                continue
            if tp in self.foreign:
                continue
            ahead = [
                n
                for n in range(max(log.begin, self.group_begin(tp, log)), min(offset, log.end))
                if (tp.topic, log.life, tp.partition, n) not in self.sink
            ]
            if ahead or offset > log.end:
                raise BrokenPromiseError(f"{tp}: {offset} is committed, and {ahead[:3]} are not in the sink")

    def check_group_follows(self) -> None:
        """Check that a run that has ended by itself has committed all that it read."""
        if not self.checkpoint.done:
            return
        reached = from_json(json.loads(self._start_text()))
        for tp, offset in sorted(reached.offsets.items()):
            if tp.topic in self.run_now.topics and tp in self.logs and not self._is_anew(reached, tp):
                committed = self.committed(tp)
                if offset and (committed is None or committed < offset):
                    raise BrokenPromiseError(
                        f"the run has ended, {tp} was read to {offset}, and committed is {committed}"
                    )

    def check_all_read(self) -> None:
        """Check that every row of a log is in the sink."""
        for tp, log in sorted(self.logs.items()):
            missing = [
                n
                for n in range(max(log.begin, self.group_begin(tp, log)), log.end)
                if (tp.topic, log.life, tp.partition, n) not in self.sink
            ]
            if missing:
                raise BrokenPromiseError(f"{tp}: {len(missing)} rows from {missing[0]} on were never read")

    # ------------------------------------------------------------------ a history

    def run(self) -> None:
        """Live through the history. Raises: BrokenPromiseError."""
        for _ in range(self.rng.choice((1, 2))):
            self.create()
        for _ in range(self.rng.choice((2, 4, 6))):
            self._between_runs()
            self._one_run(self._draw_run())
        self._settle()

    def _draw_run(self) -> Run:
        rng = self.rng
        known = self.existing() or list(TOPICS)
        first = [topic for topic in known if topic in self.ever_chosen] or known
        topics = set(rng.choice(((rng.choice(first),), tuple(known), tuple(first))))
        if not self.checkpoint.offsets:
            topics &= set(self.existing())
        return Run(
            tuple(sorted(topics)) or (rng.choice(known),),
            fail=not self.allows_loss or rng.random() < 0.2,
            claim=rng.random() < 0.6,
            most=rng.choice((None, None, 3, 20)),
            now_only=rng.random() < 0.3,
            once=rng.random() < 0.05,
            committed=rng.random() < 0.3,
        )

    def _between_runs(self) -> None:
        rng = self.rng
        for _ in range(rng.choice((0, 1, 2))):
            self.happen()
        if rng.random() < 0.8:
            self.leave()
        # _give_away decides for each run which partitions another client reads
        for tp in sorted(self.logs):
            self.foreign.pop(tp, None)
        odds = rng.random()
        if odds < 0.08:
            self.checkpoint = Checkpoint(self.checkpoint.name + 1)
            self.note("the checkpoint is lost")
        elif odds < 0.16 and self.checkpoint.done > 1:
            kept = rng.randrange(1, self.checkpoint.done)
            self.checkpoint = Checkpoint(self.checkpoint.name + 1, self.checkpoint.offsets[:kept], kept)
            self.note(f"the checkpoint is that of batch {kept - 1}")

    def _give_away(self, run: Run) -> None:
        """Let another client commit half the offset in each partition that the query no longer reads."""
        for tp in sorted(self.logs):
            if tp.topic not in run.topics and tp.topic in self.ever_chosen and self.committed(tp) is not None:
                offset = self.committed(tp) // 2
                self.operator.set_data(f"/consumers/{GROUP}/offsets/{tp.topic}/{tp.partition}", b"%d" % offset)
                self.foreign[tp] = offset
                self.has_loss |= offset < self.logs[tp].begin
                self.note(f"{tp} is read by somebody else, from {offset}")

    def _one_run(self, run: Run) -> None:
        self._give_away(run)
        done, intact = self.checkpoint.done, list(self.checkpoint.offsets)
        if intact and self.rng.random() < 0.1:
            self._damage(run)
        try:
            self.begin_run(run)
            self._triggers(run)
        except KilledError:
            self.end_run(orderly=False)
        except LegacyConsumerError as error:
            self._judge(error, run)
            self.end_run(orderly=True)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise BrokenPromiseError(f"the query ends in a Python error: {error!r}") from error
        else:
            self.end_run(orderly=self.rng.random() < 0.8)
        if self.damaged:
            self.damaged = None
            # the query continued if the damaged topic was deleted meanwhile; then the repaired checkpoint is older
            self.checkpoint = Checkpoint(self.checkpoint.name + (self.checkpoint.done > done), intact, done)
            self.note("the checkpoint is repaired")

    def _triggers(self, run: Run) -> None:
        for _ in range(self.rng.choice((2, 5, 9))):
            if self.rng.random() < self.busy * 3:
                self.happen()
            is_repeated = self.checkpoint.done < len(self.checkpoint.offsets)
            is_idle = not self.trigger()
            if run.once or (run.now_only and is_idle):
                # Trigger.Once repeats a planned batch without a call of the reader
                if not (run.once and is_repeated):
                    self.check_group_follows()
                return
            if is_idle:
                self.wait(None, 1.0)

    def _damage(self, run: Run) -> None:
        """Change the last entry of the checkpoint into one that no release has written."""
        text = self.checkpoint.offsets[-1]
        document = json.loads(text)
        topic = self.rng.choice(sorted(document["offsets"]) or ["a"])
        own = document["offsets"].setdefault(topic, {})
        is_whole = self.checkpoint.done == len(self.checkpoint.offsets)
        known = is_whole and topic in run.topics and topic in self.existing()
        damage = self.rng.choice(("below 0", "text", "list", "version", "shape", "partition"))
        if damage == "partition" and known and not self._is_anew(from_json(json.loads(text)), TopicPartition(topic, 0)):
            own["9"] = 7
        elif damage == "text":
            own["0"] = "5"
        elif damage == "list":
            document["offsets"] = [5]
        elif damage == "version":
            document["version"] = 3
        elif damage == "shape":
            document["offsets"][topic] = 5
        else:
            own["0"] = -5
        self.checkpoint.offsets[-1] = json.dumps(document)
        self.damaged = (topic, self.checkpoint.done)
        self.note(f"the checkpoint is damaged: {self.checkpoint.offsets[-1]}")

    def _judge(self, error: LegacyConsumerError, run: Run) -> None:
        """Check that this error may end the query. Raises: BrokenPromiseError."""
        self.note(f"the query ends: {type(error).__name__}: {error}")
        if isinstance(error, CheckpointError) and self.damaged:
            return
        if isinstance(error, LiveGroupError) and self.has_seen_members:
            return
        if isinstance(error, ConfigError) and run.once:
            return
        if isinstance(error, DataLossError) and run.fail and self.has_loss:
            return
        if isinstance(error, RangeReadError) and (self.has_loss or self.has_long_transaction):
            return
        if isinstance(error, NoSuchTopicError) and (not self.checkpoint.offsets or self.allows_loss):
            return
        # a running query survives a lost connection or session, unless there are many; a start may fail
        troubles = sum("is away" in line or "expires" in line for line in self.log[-15:])
        if isinstance(error, (ConnectionLostError, SessionExpiredError)) and (self.step == "open" or troubles >= 3):
            return
        raise BrokenPromiseError(f"the query ends for nothing: {type(error).__name__}: {error}")

    def _settle(self) -> None:
        """End all faults, start the query again, and check that it reads all rows."""
        self.note("settling")
        self.leave()
        self.is_settling = True
        self.now += 200.0
        if not self.existing():
            self._create("a", 1)
        self.foreign.clear()
        for most in (20, None):
            run = Run(tuple(self.existing()), fail=False, claim=True, most=most, now_only=most is None)
            try:
                self.begin_run(run)
                batches = 0
                while self.trigger():
                    batches += 1
                    if batches > MOST_BATCHES and not self.unread_any():
                        raise BrokenPromiseError("one batch after the other, and nothing to read")
                self.check_committed()
            except LegacyConsumerError as error:
                raise BrokenPromiseError(f"does not get on: {type(error).__name__}: {error}") from error
            self.end_run(orderly=True)
        self.check_all_read()

    def unread_any(self) -> bool:
        return any(log.end > log.begin for log in self.logs.values())


class OpenedReader(ZkMessagesStreamReader):
    """A reader whose driver the world has opened in this process."""

    def __init__(self, options, driver) -> None:
        super().__init__(options, ())
        self._opened = driver

    def _plan(self):
        return self._opened


class HighWatermarks:
    """The brokers, as a read_uncommitted reader asks them for log ends."""

    def __init__(self, world) -> None:
        self._world = world

    def latest(self, partitions):
        """Return the reported log ends, with the messages of open transactions."""
        return {tp: self._world.said_end(tp) for tp in partitions if tp in self._world.logs}

    def close(self) -> None:
        """Do nothing: there is no connection."""


class MemoryCluster(Cluster):
    """A cluster whose store and brokers are the world's."""

    def __init__(self, options, store, world) -> None:
        super().__init__(options, store, world, world, high_watermarks=HighWatermarks(world))

    def check_access(self) -> None:
        """Do nothing: every client has access."""


def explore(seeds) -> tuple[int, str] | None:
    """Return (the first seed whose world breaks a promise, the error and the last events), or None."""
    for seed in seeds:
        world = World(seed)
        try:
            world.run()
        except BrokenPromiseError as error:
            return seed, f"{error}\n" + "\n".join(world.log[-60:])
    return None
