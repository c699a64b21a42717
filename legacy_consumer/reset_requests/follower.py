"""A member's side of a reset: holds its partitions while an operator rewrites their offsets, and goes on from there.

It stands between the coordinator and the delivery, so it knows what is owned, and everything it does happens on the
coordinator's thread: watches and the session's events only post an errand. It looks at the request as it is now and
makes of its partitions what follows from that, so a look too many does no harm.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from legacy_consumer.offsets import OffsetStore
from legacy_consumer.progress import Progress
from legacy_consumer.reset_requests.records import (
    Answer,
    AnswerState,
    Request,
    RequestState,
    answer_path,
    decode_request,
    encode_answer,
    request_path,
)
from legacy_consumer.stream import KafkaStream
from rebalance.delivery import Delivery
from rebalance.mailbox import Errand
from rebalance.snapshot import Assignment
from zk_layout.errors import LegacyConsumerError, MalformedZnodeError, NoNodeError
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.store import Acl, SessionEvent, SessionKind, WatchEvent, ZkStore

logger = logging.getLogger(__name__)


class FollowingDelivery(Delivery, Protocol):
    """A delivery that can be told to let others' commits win."""

    adopts_foreign_commits: bool


class ResetFollower:
    """Implements rebalance.delivery.Delivery around another one.

    post: hands an errand to the coordinator's mailbox. stream_of: where a partition's messages go.
    refusal: why this member cannot follow, if it cannot.
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
        stream_of: Callable[[TopicPartition, ConsumerThreadId], KafkaStream],
        post: Callable[[Errand], None],
        reset_position: int,
        refusal: str | None = None,
    ) -> None:
        self._store = store
        self._path = request_path(group)
        self._answer_path = answer_path(group, consumer_id)
        self._name = consumer_id
        self._delivery = delivery
        self._offsets = offsets
        self._progress = progress
        self._stream_of = stream_of
        self._post = post
        self._reset_position = reset_position
        self._refusal = refusal
        self._adopted_before = delivery.adopts_foreign_commits
        self._threads: dict[TopicPartition, ConsumerThreadId] = {}
        self._held: set[TopicPartition] = set()
        self._request: Request | None = None
        self._answered: Answer | None = None
        self._answered_in = 0

    def start(self) -> None:
        """Look for requests from now on."""
        self._store.add_session_listener(self._on_session)
        self._post(Errand(self.look))

    def close(self) -> None:
        """Look no more; twice is harmless."""
        self._store.remove_session_listener(self._on_session)

    # Delivery, on the coordinator's thread.

    def begin(self, claimed: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment) -> None:
        """As the delivery; a request that is under way concerns what is claimed too."""
        self._delivery.begin(claimed, assignment)
        self._threads.update(claimed)
        self._look_soon()

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """As the delivery."""
        self._delivery.stop(partitions)

    def undrained(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """As the delivery."""
        return self._delivery.undrained(partitions)

    def go_on(self, partitions: Collection[TopicPartition]) -> None:
        """As the delivery, but for what is held."""
        self._delivery.go_on([tp for tp in partitions if tp not in self._held])

    def end(self, partitions: Collection[TopicPartition]) -> None:
        """As the delivery."""
        self._delivery.end(partitions)
        self._forget(partitions)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """As the delivery."""
        self._delivery.drop(partitions)
        self._forget(partitions)

    def bury(self, partitions: Collection[TopicPartition]) -> None:
        """As the delivery."""
        self._delivery.bury(partitions)
        self._forget(partitions)

    def pause(self) -> None:
        """As the delivery."""
        self._delivery.pause()

    def resume(self) -> None:
        """As the delivery."""
        self._delivery.resume()

    def commit(self) -> None:
        """As the delivery."""
        self._delivery.commit()

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            self._threads.pop(tp, None)
            self._held.discard(tp)

    # Events, on threads of the store.

    def _on_session(self, event: SessionEvent) -> None:
        if event.kind is SessionKind.CONNECTED:
            self._post(Errand(self.look))

    def _on_change(self, _: WatchEvent) -> None:
        self._post(Errand(self.look))

    def _look_soon(self) -> None:
        if self._request is not None:
            self._post(Errand(self.look))

    # What is done about them, on the coordinator's thread.

    def look(self) -> None:
        """Do what the request that stands there asks for. Errors are logged: the session's return brings it back."""
        try:
            request = self._read()
            if request is None:
                self._go_back()
            elif self._refusal is not None:
                self._answer(Answer(request.request_id, AnswerState.REFUSED, frozenset(), self._refusal))
            else:
                self._follow(request)
        except LegacyConsumerError as error:
            logger.warning("%s: cannot follow the reset that %s asks for: %s", self._name, self._path, error)

    def _read(self) -> Request | None:
        # the watch of exists fires on creation, change and deletion alike, so one request is all that a join costs
        if self._store.exists(self._path, self._on_change) is None:
            return None
        try:
            return decode_request(self._path, self._store.get_data(self._path).data)
        except NoNodeError:
            return None
        except MalformedZnodeError as error:
            logger.warning("%s: %s", self._name, error)
            return None

    def _follow(self, request: Request) -> None:
        if self._request is None or self._request.request_id != request.request_id:
            logger.warning("%s: an operator resets offsets of %d partitions", self._name, len(request.partitions))
        self._request = request
        mine = request.partitions & self._threads.keys()
        if request.state is RequestState.PREPARE:
            # until it is over whatever others commit counts, and what is in hand does not overwrite it
            self._delivery.adopts_foreign_commits = True
            self._delivery.stop(mine - self._held)
            self._held |= mine
            self._answer(Answer(request.request_id, AnswerState.READY, mine))
        elif self._answered != Answer(request.request_id, AnswerState.DONE, mine):
            # also of those that came to me in between: their offsets may be read before they were written
            self._take_up(mine | self._held)
            self._answer(Answer(request.request_id, AnswerState.DONE, mine))

    def _go_back(self) -> None:
        """There is no request, or no more."""
        if self._held:
            self._take_up(self._held)
        self._delivery.adopts_foreign_commits = self._adopted_before
        self._request = None
        if self._answered is not None:
            self._withdraw()

    def _take_up(self, partitions: Collection[TopicPartition]) -> None:
        """Go on: from the committed offset where somebody else wrote it, else from where the partition was."""
        going = [tp for tp in partitions if tp in self._threads]
        by_stream: dict[KafkaStream, dict[TopicPartition, int]] = {}
        epochs: dict[TopicPartition, int] = {}
        unchanged: list[TopicPartition] = []
        for tp, committed in self._offsets.read(going).items():
            known = self._progress.get(tp)
            if known is None or known.committed.version == committed.version:
                unchanged.append(tp)
                continue
            position = committed.offset if committed.offset is not None else self._reset_position
            epochs[tp] = self._progress.begin(tp, committed.offset, committed)
            by_stream.setdefault(self._stream_of(tp, self._threads[tp]), {})[tp] = position
        for stream, positions in by_stream.items():
            stream.stop(positions.keys())
            stream.begin(positions, {tp: epochs[tp] for tp in positions})
            logger.warning("%s: goes on from %s", self._name, ", ".join(f"{tp}: {o}" for tp, o in positions.items()))
        self._delivery.go_on([tp for tp in unchanged if tp in self._held])
        self._held.clear()

    def _answer(self, answer: Answer) -> None:
        session_id = self._store.session_id
        if (answer, session_id) == (self._answered, self._answered_in):
            return
        self._withdraw()
        try:
            self._store.create(self._answer_path, encode_answer(answer), ephemeral=True, acl=Acl.OPEN)
        except NoNodeError:
            return  # the request is over
        self._answered, self._answered_in = answer, session_id

    def _withdraw(self) -> None:
        """Whichever session of mine the answer is of."""
        self._answered = None
        with contextlib.suppress(NoNodeError):
            self._store.delete(self._answer_path)
