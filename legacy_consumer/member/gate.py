"""Gate: the partitions of a stream that flow, the messages in hand, and the consumed offsets. From any thread.

The coordinator opens and shuts the gate for single partitions, the user's code pauses and seeks, and commits read the
progress. The ledger (hand.py) holds the fetched messages and the messages in hand. A message counts as consumed when
the consuming thread asks for the next one (delivery.rule=at_least_once), or when it is handed out (at_next, as the JVM
does it).

Every change of the ledger is one assignment. So an exception may interrupt the consuming thread anywhere (Ctrl-C, a
soft time limit, no memory): a change is made or not made, and messages not handed out yet are handed out later. The
same holds for each seek, pause, resume and acknowledgement: one assignment decides it, and if an exception interrupts
the rest, the next call carries the rest out (_settle).

Shutting the gate for a partition also shuts a hand with messages of it, so it takes effect before the next message is
handed out. If the user's code has messages of the partition in hand, the consuming thread must ask once more; then they
count as consumed, and the partition is drained. The rest of the hand waits again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum

from legacy_consumer.errors import NotAssignedError
from legacy_consumer.fetching.fetcher import Fetcher, Message
from legacy_consumer.member.acknowledgements import Acknowledgements
from legacy_consumer.member.hand import Hand, Ledger, Life
from legacy_consumer.offsets.progress import Committed, PartitionProgress, Progress
from rebalance.clock import Clock
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition
from zk_layout.signals import Flag


class Pause(Enum):
    """The reason why a whole stream hands out nothing."""

    SUSPENDED = "the connection to ZooKeeper is suspended"
    USER = "the user has paused it"
    LEAVING = "its member leaves the group"


class Gate:
    """The part of a stream that other threads use as well as the consuming one."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        progress: Progress,
        clock: Clock,
        at_next: bool,
        on_drained: Callable[[], None],
        acknowledged: bool,
    ) -> None:
        """at_next: messages count as consumed when they are handed out. acknowledged: see HandSource.

        on_drained: called when the messages in hand of stopped partitions are finished.
        """
        self._fetcher = fetcher
        self._progress = progress
        self._clock = clock
        # True: messages are noted when they are handed out, as consumed or, with acknowledgements, as waiting for one
        self._at_next = at_next or acknowledged
        self._acknowledgements = Acknowledgements() if acknowledged else None
        self._on_drained = on_drained
        # reentrant: a signal handler may run on a thread that holds it; no change is half made, so that is safe
        self._lock = threading.RLock()
        self._opened = Flag()
        self._opened.set()
        # replaced, never changed: a poll keeps the mapping of the moment at which it began
        self._live: Mapping[TopicPartition, Life] = {}
        self._wanted: set[TopicPartition] = set()
        """Partitions that the coordinator lets flow; they flow unless the user's code pauses them."""
        self._paused: set[TopicPartition] = set()
        """Partitions that the user's code has paused by name."""
        self._lives: dict[TopicPartition, Life] = {}
        """The last life of each partition that the fetcher has had."""
        self._ledger = Ledger()
        self._is_drained_due = False
        self._pauses: frozenset[Pause] = frozenset()
        self._is_unsettled = False
        """Whether a seek, a pause or a resume is under way, or an exception interrupted one."""
        self._moving: Mapping[TopicPartition, Life] = {}
        """The lives that a seek under way begins: they count as soon as Progress has their epochs."""
        self._acknowledging: TopicPartition | None = None

    # For the coordinator and for commits, from any thread.

    def begin(
        self, positions: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int], *, shut: bool = False
    ) -> None:
        """Hand out messages of these partitions from their positions on; if shut, after go_on. Nothing is paused.

        While they are shut the user's code may seek and pause.
        """
        with self._lock:
            lives = {tp: Life(epochs[tp], position) for tp, position in positions.items()}
            self._lives.update(lives)
            self._paused -= lives.keys()
            if not shut:
                self._wanted |= lives.keys()
                self._open(lives)

    def go_on(self, partitions: Collection[TopicPartition]) -> None:
        """Undo a stop: hand out again, after the messages in hand, which count as usual."""
        with self._lock:
            going = self._lives.keys() & partitions
            self._wanted |= going
            self._fetch_again(going - self._paused)

    def restart(
        self, positions: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, Committed] | None = None
    ) -> Collection[TopicPartition]:
        """Move the partitions; stopped or paused ones stay so, and their messages in hand do not count any more.

        committed: their stored offsets, if these changed. Returns: the partitions that this stream has.
        """
        with self._lock:
            moved = self._restart(positions, committed)
        self._tell_drained()
        return moved

    def _restart(
        self, positions: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, Committed] | None
    ) -> Collection[TopicPartition]:
        moving = {tp: Life(self._progress.new_epoch(), position) for tp, position in positions.items() if self._has(tp)}
        self._begin_change()
        self._moving = moving
        for tp, life in moving.items():
            # EARLIEST, LATEST and NO_POSITION are no offsets to commit
            start = life.start if life.start >= 0 else None
            stored = committed[tp] if committed is not None else None
            self._progress.move(tp, self._lives[tp].epoch, life.epoch, start, stored)
        lives = self._moved(moving)
        self._lives.update(lives)
        flowing = self._live.keys() & lives.keys()
        self._shut(flowing)
        self._open({tp: lives[tp] for tp in flowing})
        self._look_for_drained(lives)
        self._end_change()
        return lives.keys()

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no more messages of these partitions; see undrained for messages in hand."""
        with self._lock:
            self._settle()
            self._wanted.difference_update(partitions)
            self._shut(self._live.keys() & partitions)

    def undrained(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return which of these stopped partitions have messages in hand."""
        with self._lock:
            if self._acknowledgements is not None:
                self.note_progress()
                return frozenset(tp for tp in partitions if self._awaits_acknowledgement(tp))
            hand = self._ledger.hand
            return frozenset(hand.barred & set(partitions)) if hand is not None else frozenset()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the messages of these stopped partitions that wait for an acknowledgement."""
        with self._lock:
            if self._acknowledgements is not None:
                self._acknowledgements.forget(partitions)

    def _awaits_acknowledgement(self, tp: TopicPartition) -> bool:
        known = self._progress.get(tp)
        return (
            known is not None
            and self._acknowledgements is not None
            and self._acknowledgements.is_any_waiting(tp, known.epoch, known.done or 0)
        )

    def _look_for_drained(self, partitions: Collection[TopicPartition]) -> None:
        """Let _tell_drained call the coordinator if one of these is stopped and waits for no acknowledgement."""
        if self._acknowledgements is not None:
            self._is_drained_due |= any(
                tp not in self._wanted and not self._awaits_acknowledgement(tp) for tp in partitions
            )

    def note_progress(self) -> None:
        """Note the messages consumed so far in Progress."""
        with self._lock:
            hand = self._ledger.hand
            if hand is not None:
                self._note(hand, hand.handed_out() if self._at_next else hand.done())
            self._count_acknowledged()

    def is_held_by(self, holder: object) -> bool:
        """Return whether this thread took the messages in hand."""
        hand = self._ledger.hand
        return hand is not None and hand.holder == holder

    def let_go(self) -> None:
        """Stop waiting for the messages in hand, and do not count them: the thread that waits holds them itself."""
        with self._lock:
            hand = self._ledger.hand
            if hand is not None:
                handed_out = hand.shut()
                self._put_back(hand, handed_out if self._at_next else hand.done())
        self._tell_drained()

    def come_back(self) -> None:
        """Count messages in hand as consumed: their thread asked again or committed. The rest waits again."""
        with self._lock:
            hand = self._ledger.hand
            if hand is not None:
                self._put_back(hand, hand.shut())
        self._tell_drained()

    def note_named(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for no acknowledgement of messages before the offsets that the user's code has committed by name."""
        with self._lock:
            self._look_for_drained(self._lives.keys() & partitions)
        self._tell_drained()

    def pause(self, by: Pause) -> None:
        """Hand out nothing until each pause is resumed."""
        with self._lock:
            # the assignment comes last: an exception before it leaves the stream as it was
            self._opened.clear()
            self._interrupt()
            self._pauses |= {by}

    def resume(self, by: Pause) -> None:
        """Undo a pause."""
        with self._lock:
            self._pauses -= {by}
            if not self._pauses:
                self._opened.set()

    # For users, from any thread.

    def seek(self, tp: TopicPartition, position: int) -> None:
        """Hand out a partition from this position on. Raises: NotAssignedError."""
        if tp not in self.restart({tp: position}):
            raise NotAssignedError(tp)

    def check_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Refuse partitions that this stream does not have. Raises: NotAssignedError."""
        with self._lock:
            for tp in partitions:
                self._known(tp)

    def pause_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these until they are resumed or begin anew; see check_assigned."""
        with self._lock:
            self._begin_change()
            self._paused = self._paused.union(partitions)
            self._shut(self._live.keys() & partitions)
            self._end_change()

    def resume_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Undo pause_partitions."""
        with self._lock:
            going = self._paused & set(partitions)
            self._begin_change()
            self._paused = self._paused - going
            self._fetch_again(going & self._wanted)
            self._end_change()

    def paused(self) -> frozenset[TopicPartition]:
        """Return which of its partitions the user has paused, by name or as a whole."""
        with self._lock:
            paused = self._lives.keys() if Pause.USER in self._pauses else self._paused
            return frozenset(tp for tp in paused if self._has(tp))

    def position(self, tp: TopicPartition) -> int | None:
        """Return the offset to hand out next; None while it is not known. Raises: NotAssignedError."""
        with self._lock:
            self.note_progress()
            start = self._next(tp, self._known(tp), self._in_hand())
            return start if start >= 0 else None

    def acknowledge(self, tp: TopicPartition, offset: int) -> bool:
        """Mark a message as done; False if it was not waiting. Raises: ConfigError with another delivery.rule."""
        with self._lock:
            if self._acknowledgements is None:
                raise ConfigError(
                    "delivery.rule", "at_least_once", "must be acknowledged to acknowledge messages by name"
                )
            known = self._progress.get(tp)
            if known is None:
                return False
            # a loop may have handed the message out since Progress was last noted
            self.note_progress()
            self._acknowledging = tp
            is_done = self._acknowledgements.acknowledge(tp, known.epoch, offset)
            self._count_acknowledged()
        self._tell_drained()
        return is_done

    def _count_acknowledged(self) -> None:
        """Note the consumed position of the partition of an acknowledged message, if it is not noted yet."""
        tp = self._acknowledging
        known = None if tp is None else self._progress.get(tp)
        if tp is not None and known is not None and self._acknowledgements is not None:
            consumed = self._acknowledgements.consumed(tp, known.epoch)
            if consumed is not None:
                self._progress.note_consumed({tp: consumed}, {tp: known.epoch})
            self._look_for_drained([tp])
        self._acknowledging = None

    def _has(self, tp: TopicPartition) -> bool:
        self._settle()
        life, known = self._lives.get(tp), self._progress.get(tp)
        return life is not None and known is not None and life.epoch == known.epoch

    def _known(self, tp: TopicPartition) -> PartitionProgress:
        known = self._progress.get(tp)
        if known is None or not self._has(tp):
            raise NotAssignedError(tp)
        return known

    def _in_hand(self) -> Mapping[TopicPartition, int]:
        """Return the positions after the messages in hand that Progress does not know yet."""
        hand = self._ledger.hand
        return hand.chunk.offsets(hand.noted, hand.handed_out()) if hand is not None else {}

    def _next(self, tp: TopicPartition, known: PartitionProgress, in_hand: Mapping[TopicPartition, int]) -> int:
        hand = self._ledger.hand
        if hand is not None and tp in in_hand and hand.chunk.lives[tp].epoch == known.epoch:
            return in_hand[tp]
        if self._acknowledgements is not None:
            position = self._acknowledgements.position(tp, known.epoch)
            if position is not None:
                return position
        return self._lives[tp].start if known.consumed is None else known.consumed

    # Inside.

    def _begin_change(self) -> None:
        """Begin a change that _settle can finish. It shuts the hand, so a loop over it asks before its next message."""
        self._settle()
        self._is_unsettled = True
        self._interrupt()

    def _end_change(self) -> None:
        self._moving = {}
        self._is_unsettled = False

    def _settle(self) -> None:
        """Carry out the change that an exception interrupted, if there is one: fetch all that flows again."""
        if self._is_unsettled:
            self._lives.update(self._moved(self._moving))
            self._shut(frozenset(self._lives))
            self._fetch_again(self._wanted - self._paused)
            self._look_for_drained(self._moving)
            self._end_change()

    def _moved(self, moving: Mapping[TopicPartition, Life]) -> Mapping[TopicPartition, Life]:
        """Return which of the moving partitions have moved."""
        known = {tp: self._progress.get(tp) for tp in moving}
        return {tp: moving[tp] for tp, now in known.items() if now is not None and now.epoch == moving[tp].epoch}

    # A poll applies the changes that the fetcher got before it, and its messages belong to the lives of that moment. So
    # _shut unassigns a partition before its life ends, and _open assigns it after its life has begun: a poll between
    # the two brings no messages of it, or messages of an ended life. A life may also begin after the consuming thread
    # has noted the lives and before its poll: the stream cannot tell whether the poll's messages are of an earlier
    # life, so it fetches them again (HandSource._fetch_what_began).

    def _shut(self, going: Collection[TopicPartition]) -> None:
        if not going:
            return
        self._fetcher.unassign(going)
        self._live = {tp: life for tp, life in self._live.items() if tp not in going}
        if not self._live:
            # a waiting call must check whether ZooKeeper has refused the credentials, and raise then
            self._fetcher.wake()
        hand = self._ledger.hand
        if hand is not None and not hand.chunk.next_offsets.keys().isdisjoint(going):
            hand.shut()
            hand.barred.update(tp for tp in hand.partitions_out() if tp in going)

    def _open(self, lives: Mapping[TopicPartition, Life]) -> None:
        self._lives.update(lives)
        self._live = {**self._live, **lives}
        self._fetcher.assign({tp: life.start for tp, life in lives.items()})

    def _fetch_again(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch again from after the messages in hand; drop fetched messages, which will come again."""
        hand = self._ledger.hand
        if hand is not None:
            hand.shut()
            self._note(hand, hand.done())
        in_hand = self._in_hand()
        lives: dict[TopicPartition, Life] = {}
        for tp in partitions:
            known = self._progress.get(tp)
            if known is None:
                continue
            if hand is not None and tp in in_hand and hand.chunk.lives[tp].epoch == known.epoch:
                hand.barred.discard(tp)
            lives[tp] = Life(known.epoch, self._next(tp, known, in_hand))
        self._fetcher.unassign(lives.keys())
        self._open(lives)

    def _interrupt(self) -> None:
        """Shut the hand: a loop over it ends before the next message. Takes no lock."""
        hand = self._ledger.hand
        if hand is not None:
            hand.shut()

    def _put_back(self, hand: Hand, consumed: int) -> None:
        """Count this many messages in hand as consumed; then nothing is in hand, and the rest waits."""
        with self._lock:
            if hand is not self._ledger.hand:
                return
            hand.shut()
            self._note(hand, consumed)
            waiting = self._ledger.waiting
            if consumed < len(hand.chunk.messages):
                waiting = (hand.chunk.after(consumed), *waiting)
            self._is_drained_due |= bool(hand.barred)
            self._ledger = Ledger(None, waiting)

    def _tell_drained(self) -> None:
        if self._is_drained_due:
            try:
                self._is_drained_due = False
                self._on_drained()
            except BaseException:
                self._is_drained_due = True
                raise

    def _note(self, hand: Hand, count: int) -> None:
        if count > hand.noted:
            messages = hand.chunk.messages[hand.noted : count] if self._acknowledgements is not None else ()
            self._count_consumed(hand.chunk.offsets(hand.noted, count), hand.chunk.lives, messages)
            hand.noted = count

    def _count_consumed(
        self,
        offsets: Mapping[TopicPartition, int],
        lives: Mapping[TopicPartition, Life],
        messages: Sequence[Message] = (),
        *,
        placed: bool = False,
    ) -> None:
        epochs = {tp: lives[tp].epoch for tp in offsets if tp in lives}
        back = {tp: epoch for tp, epoch in epochs.items() if self._lies_behind(tp, epoch, offsets[tp])}
        if back:
            # in this order: after an exception between two steps nothing of the old log can count for the new one
            self._progress.forget_done(back)
            if self._acknowledgements is not None:
                self._acknowledgements.forget(back)
            self._look_for_drained(back)
        if self._acknowledgements is not None:
            offsets = self._acknowledgements.hand_out(messages, offsets, epochs)
        self._progress.note_consumed(offsets, epochs, placed=placed)

    def _lies_behind(self, tp: TopicPartition, epoch: int, offset: int) -> bool:
        """Return whether the fetcher moved the partition back: its log became shorter, and differs from there on."""
        known = self._progress.get(tp)
        return known is not None and known.epoch == epoch and offset < self._next(tp, known, {})
