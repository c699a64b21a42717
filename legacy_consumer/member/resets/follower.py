"""A member's side of a reset: holds its partitions while an operator writes their offsets, and continues from there.

It wraps the delivery: the coordinator's calls show it which partitions the member owns, and which it will release.
All its work is on the coordinator's thread: watches and events of the session only post an errand. It reads the present
request and brings its partitions into the matching state, so an extra reading does no harm. While it follows a request,
and after a failed reading, it reads again periodically.

A partition flows if neither the coordinator nor a request keeps its gate shut. The coordinator decides last: a
partition that it stopped for a release stays shut after the reset.

Any client of ZooKeeper may write a request. So a request counts only while the session that created it lives, and a
member holds its partitions for HOLD_MS at most.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from legacy_consumer.errors import OffsetError
from legacy_consumer.member.resets.records import (
    HOLD_MS,
    Answer,
    AnswerState,
    Request,
    RequestState,
    answer_path,
    answers_path,
    decode_request,
    encode_answer,
    request_path,
)
from legacy_consumer.offsets import OffsetStore
from legacy_consumer.offsets.progress import Committed, Progress
from rebalance.delivery import Delivery, Waits
from rebalance.errors import PartlyBegunError
from rebalance.mailbox import Errand
from rebalance.snapshot import Assignment
from zk_layout.errors import LegacyConsumerError, MalformedZnodeError, NodeExistsError, NoNodeError
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.store import SessionEvent, SessionKind, WatchEvent, WatchKind, ZkStore

logger = safe_logger(__name__)

_AGAIN_MS = 2000
"""The interval of readings while a member follows a request, and after a failed one."""


class FollowingDelivery(Delivery, Protocol):
    """A delivery whose partitions an operator may move."""

    resetting: frozenset[TopicPartition]
    """Partitions that an operator resets now. The member's commits overwrite no offset of another client there."""

    def follow(self, find: Callable[[], Mapping[TopicPartition, Committed]]) -> Mapping[TopicPartition, Committed]:
        """Continue from the offsets that find returns; no commit of this member is under way meanwhile.

        Stopped partitions stay stopped, and continue there after go_on.
        """
        ...


class ResetFollower:
    """Implements rebalance.delivery.Delivery around another one.

    post: puts an errand into the coordinator's mailbox; later: the same after a number of milliseconds, from the
    coordinator's thread. refusal: why this member cannot follow, if it cannot. topics_by_hand: topics whose offsets it
    does not take from the group. keeps_folder: create the folder of requests, so that with zookeeper.set.acl no other
    client can.
    """

    def __init__(
        self,
        store: ZkStore,
        group: str,
        consumer_id: str,
        delivery: FollowingDelivery,
        *,
        offsets: OffsetStore,
        progress: Progress,
        post: Callable[[Errand], None],
        later: Callable[[Errand, int], None],
        refusal: str | None = None,
        topics_by_hand: frozenset[str] = frozenset(),
        keeps_folder: bool = False,
    ) -> None:
        self._store = store
        self._path = request_path(group)
        self._answers_path = answers_path(group)
        self._keeps_folder = keeps_folder
        self._answer_path = answer_path(group, consumer_id)
        self._name = consumer_id
        self._delivery = delivery
        self._offsets = offsets
        self._progress = progress
        self._post = post
        self._later = later
        self._refusal = refusal
        self._topics_by_hand = topics_by_hand
        self._owned: set[TopicPartition] = set()
        self._waiting: frozenset[TopicPartition] = frozenset()
        """Partitions that are claimed and could not begin: they hand out nothing, and read their offsets later."""
        self._releasing: set[TopicPartition] = set()
        """Partitions that the coordinator has stopped, and neither resumed nor ended."""
        self._held: set[TopicPartition] = set()
        self._followed: set[TopicPartition] = set()
        """Partitions that continue already from the offsets of the present request."""
        self._request: Request | None = None
        self._overdue: tuple[str, RequestState] | None = None
        """The id of a request that has taken too long, and the state in which it did."""
        self._complaint: str | None = None
        """The text of the error that made the last look fail; None if it did not fail."""
        self._answered: Answer | None = None
        self._answered_in = 0
        self._unseen = True
        """Whether a request may have come or gone since the last reading."""
        self._is_connected = True

    @property
    def held(self) -> frozenset[TopicPartition]:
        """The partitions that hand out nothing because of a request; from any thread."""
        return frozenset(self._held.copy())

    def start(self) -> None:
        """Look for requests from now on."""
        self._store.add_session_listener(self._on_session)
        self._post(Errand(self._look_for_news))

    def close(self) -> None:
        """Stop looking for requests; twice is harmless."""
        self._store.remove_session_listener(self._on_session)

    # Delivery, on the coordinator's thread.

    def begin(self, claimed: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment) -> Waits[None]:
        """See Delivery; a running request also holds the claimed partitions.

        The member reads it before its next commit: the offsets may have been read before an operator wrote them.
        """
        try:
            yield from self._delivery.begin(claimed, assignment)
        except PartlyBegunError as error:
            self._note_begun(claimed, frozenset(error.held))
            raise
        self._note_begun(claimed, frozenset())

    def _note_begun(self, claimed: Collection[TopicPartition], waiting: frozenset[TopicPartition]) -> None:
        begun = [tp for tp in claimed if tp not in waiting]
        self._waiting = waiting
        self._owned.update(begun)
        # the coordinator may have stopped a partition before it began
        self._releasing.difference_update(begun)
        if claimed and (self._unseen or self._request is not None):
            self.look()

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """See Delivery; the end of a request does not open these partitions."""
        self._releasing.update(partitions)
        self._delivery.stop(partitions)

    def undrained(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """See Delivery."""
        return self._delivery.undrained(partitions)

    def go_on(self, partitions: Collection[TopicPartition]) -> None:
        """See Delivery; held partitions stay shut."""
        self._releasing.difference_update(partitions)
        self._delivery.go_on([tp for tp in partitions if tp not in self._held])

    def end(self, partitions: Collection[TopicPartition]) -> Waits[None]:
        """See Delivery."""
        yield from self._delivery.end(partitions)
        self._forget(partitions)

    def finish_telling(self) -> Waits[None]:
        """See Delivery."""
        return self._delivery.finish_telling()

    def await_answer(self, timeout_s: float) -> None:
        """See Delivery."""
        self._delivery.await_answer(timeout_s)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """See Delivery."""
        self._delivery.drop(partitions)
        self._forget(partitions)

    def bury(self, partitions: Collection[TopicPartition]) -> None:
        """See Delivery."""
        self._delivery.bury(partitions)
        self._forget(partitions)

    def disown(self, partitions: Collection[TopicPartition]) -> None:
        """See Delivery."""
        self._delivery.disown(partitions)

    def pause(self) -> None:
        """See Delivery."""
        self._delivery.pause()

    def resume(self) -> None:
        """See Delivery."""
        self._delivery.resume()

    def commit(self) -> None:
        """See Delivery."""
        self._delivery.commit()

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for known in (self._owned, self._releasing, self._held, self._followed):
            known.difference_update(partitions)

    # Events, on threads of the store.

    def _on_session(self, event: SessionEvent) -> None:
        self._is_connected = event.kind is SessionKind.CONNECTED
        if self._is_connected:
            self._post(Errand(self.look))

    def _on_change(self, event: WatchEvent) -> None:
        # after a lost connection, the look at the reconnection sets the watch again
        self._unseen = True
        if event.kind is not WatchKind.LOST:
            self._post(Errand(self._look_for_news))

    # Reactions to events, on the coordinator's thread.

    def _look_for_news(self) -> None:
        """Look, unless a begin of partitions has looked since the event."""
        if self._unseen:
            self.look()

    def look(self) -> None:
        """Do what the present request asks for. Log errors, also unexpected ones, and look again after them."""
        if not self._is_connected:
            # each request would block the coordinator's thread; the member looks when it is connected again
            return
        request = None
        try:
            self._keep_folder()
            request = self._read()
            if request is None:
                self._go_back()
            elif (refusal := self._refusal_of(request)) is not None:
                self._go_back()
                self._answer(Answer(request.request_id, AnswerState.REFUSED, frozenset(), refusal))
            else:
                self._follow(request)
            self._complaint = None
        except Exception as error:  # noqa: BLE001 - it is logged
            # there may be no watch now. The error is not raised: begin() would fail after its partitions have begun
            self._unseen = True
            self._complain(error, is_asked=request is not None or self._request is not None)
        if self._unseen or self._request is not None:
            self._later(Errand(self.look), _AGAIN_MS)

    def _complain(self, error: Exception, *, is_asked: bool) -> None:
        """Log why a look failed; the same error again at level DEBUG."""
        expected = error if isinstance(error, LegacyConsumerError) else None
        if is_asked:
            level, what = logging.WARNING, f"cannot follow the reset that {self._path} asks for"
        else:
            level = logging.INFO if expected is not None and expected.retriable else logging.WARNING
            what = f"cannot read whether {self._path} asks for a reset"
        if str(error) == self._complaint:
            level = logging.DEBUG
        self._complaint = str(error)
        logger.log(level, "%s: %s: %s", self._name, what, error, exc_info=expected is None)

    def _refusal_of(self, request: Request) -> str | None:
        by_hand = sorted({tp.topic for tp in request.partitions} & self._topics_by_hand)
        if by_hand and self._refusal is None:
            return f"it keeps the offsets of {', '.join(by_hand)} by hand: offsets.by.hand"
        return self._refusal

    def _keep_folder(self) -> None:
        if not self._keeps_folder:
            return
        for path in (self._answers_path.rpartition("/")[0], self._answers_path):
            # no parents are created: with an ACL on the group's own folder other clients could not register
            with contextlib.suppress(NodeExistsError):
                self._store.create(path, None)
        self._keeps_folder = False

    def _read(self) -> Request | None:
        self._unseen = False
        # the watch of exists fires on creation, change and deletion, so a join costs one request
        if self._store.exists(self._path, self._on_change) is None:
            return None
        try:
            znode = self._store.get_data(self._path)
            request = decode_request(self._path, znode.data)
        except NoNodeError:
            return None
        except MalformedZnodeError as error:
            logger.warning("%s: %s", self._name, error)
            return None
        if not znode.stat.ephemeral_owner:
            logger.warning("%s: ignores %s, which no command that runs has written: delete it", self._name, self._path)
            return None
        return request

    def _follow(self, request: Request) -> None:
        if self._request is None or self._request.request_id != request.request_id:
            # partitions held for an earlier request must not wait for this one
            self._go_back()
            logger.warning(
                "%s: an operator asks to reset offsets of %d partitions", self._name, len(request.partitions)
            )
            self._later(Errand(partial(self._hold_no_longer, request.request_id)), HOLD_MS)
            self._followed.clear()
        self._request = request
        mine = request.partitions & self._owned
        answered = mine | (request.partitions & self._waiting)
        if (request.request_id, request.state) == self._overdue:
            self._let_flow()
            return
        # a commit of messages in hand must not overwrite the operator's offsets
        self._delivery.resetting = request.partitions - self._followed
        if request.state is RequestState.PREPARE:
            self._delivery.stop(mine - self._held)
            self._held |= mine
            self._answer(Answer(request.request_id, AnswerState.READY, answered))
        else:
            # also partitions claimed meanwhile: begin() may have read their offsets before the operator wrote them.
            # Once each: if the answer fails and is written later, the stored offset may be an own commit by then
            if fresh := (mine - self._followed) | self._held:
                self._take_up(fresh, is_applied=True)
                self._followed |= mine
                self._delivery.resetting -= mine
            self._answer(Answer(request.request_id, AnswerState.DONE, answered))

    def _hold_no_longer(self, request_id: str) -> None:
        """Let the partitions flow although the offsets are not written yet, or this member cannot read them."""
        request = self._request
        if request is None or request.request_id != request_id:
            return
        if request.state is RequestState.PREPARE or self._held or self._delivery.resetting & self._owned:
            seconds = HOLD_MS // 1000
            logger.warning(
                "%s: waits no longer for the reset that %s asks for since %d s", self._name, self._path, seconds
            )
            self._overdue = request_id, request.state
            self.look()

    def _go_back(self) -> None:
        """Continue without a request: it is gone, refused or replaced by another one."""
        self._let_flow()
        self._request = None

    def _let_flow(self) -> None:
        if self._held:
            self._take_up(self._held, is_applied=False)
        self._delivery.resetting = frozenset()
        if self._answered is not None:
            self._withdraw()

    def _take_up(self, partitions: Collection[TopicPartition], *, is_applied: bool) -> None:
        """Continue from the committed offset if another client wrote it, else from the present position.

        is_applied: the operator has written the offsets. Otherwise the stored offset may also come from an own commit
        without an answer, and the user's code may have continued or sought since.
        """
        going = [tp for tp in partitions if tp in self._owned]
        changed = self._delivery.follow(partial(self._find_changed, going, is_applied=is_applied))
        if changed:
            some = ", ".join(
                f"{tp}: {'auto.offset.reset' if committed.offset is None else committed.offset}"
                for tp, committed in sorted(changed.items())[:5]
            )
            logger.warning("%s: continues from %s", self._name, some + (", ..." if len(changed) > 5 else ""))
        self._delivery.go_on([tp for tp in going if tp in self._held and tp not in self._releasing])
        self._held.clear()

    def _find_changed(
        self, partitions: Sequence[TopicPartition], *, is_applied: bool
    ) -> Mapping[TopicPartition, Committed]:
        """Return the stored offsets that another client wrote. Raises: OffsetError for an unreadable applied one."""
        changed: dict[TopicPartition, Committed] = {}
        for tp, committed in self._offsets.read(partitions).items():
            if is_applied and committed.problem is not None:
                # no answer "done": this member cannot continue from that offset
                raise OffsetError(f"{tp}: {committed.problem}")
            known = self._progress.get(tp)
            # an unreadable offset is no position to continue from: the owner's next commit repairs it
            before = committed if known is None or committed.problem is not None else known.committed
            is_own = not is_applied and self._offsets.wrote(tp, committed)
            # a znode that was deleted and created again counts versions from 0 again: only the transaction differs
            is_gone = not is_applied and committed.offset is None
            if not is_own and not is_gone and _written(before) != _written(committed):
                changed[tp] = committed
        return changed

    def _answer(self, answer: Answer) -> None:
        session_id = self._store.session_id
        if (answer, session_id) == (self._answered, self._answered_in):
            return
        self._withdraw()
        try:
            self._store.create(self._answer_path, encode_answer(answer), ephemeral=True)
        except NoNodeError:
            return  # the request is over
        self._answered, self._answered_in = answer, session_id

    def _withdraw(self) -> None:
        """Delete the answer, also of an earlier session of this member."""
        # first: until the deletion has succeeded no answer counts as written, so a failed deletion is retried
        self._answered_in = 0
        with contextlib.suppress(NoNodeError):
            self._store.delete(self._answer_path)
        self._answered = None


def _written(offset: Committed) -> tuple[int | None, int | None, int]:
    return offset.version, offset.offset, offset.transaction
