"""Writes a plan of offsets under a running group: its members of this project hold still and follow.

See legacy_consumer.member.resets.records for the steps. Members of the JVM cannot follow; as long as one owns a
partition of the plan nothing is written. Right before the write the owners are looked at once more, and it fails if one
of them has given its partition up by then.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from legacy_consumer.member.resets import (
    Answer,
    AnswerState,
    Request,
    RequestState,
    answer_path,
    answers_path,
    decode_answer,
    encode_request,
    request_path,
    standing_reset,
)
from legacy_consumer.operations.admin.errors import OffsetsChangedError, ResetRequestError
from legacy_consumer.operations.admin.group_members import read_members
from legacy_consumer.operations.admin.group_snapshots import read_snapshots
from legacy_consumer.operations.admin.offset_plans import OffsetPlan, Standing, read_standings
from legacy_consumer.operations.admin.offset_writes import Written, write_plan
from rebalance.clock import Clock, SystemClock
from rebalance.group_strategy import owner_id
from zk_layout.errors import MalformedZnodeError, NodeExistsError, NoNodeError, NotEmptyError
from zk_layout.model import TopicPartition
from zk_layout.paths import OwnerPath
from zk_layout.store import SetOp, ZkStore

_LOOK_S = 0.05
_TRIES = 5
_SHOWN = 3
_MOVED = "partitions changed their owners meanwhile; try again when `groups describe` shows no more changes"


@dataclass(frozen=True, slots=True)
class Followed:
    """written: as write_plan says. plan: what was written, over what the members had committed last.

    unanswered: owners that did not say in time that they went on from the new offsets.
    """

    written: Written
    plan: OffsetPlan
    unanswered: tuple[str, ...] = ()


def write_live(
    store: ZkStore,
    plan: OffsetPlan,
    *,
    timeout_s: float = 10.0,
    on_progress: Callable[[int], None] = lambda _: None,
    before_write: Callable[[OffsetPlan], None] = lambda _: None,
    clock: Clock | None = None,
) -> Followed:
    """Have the owners hold the plan's partitions, write all offsets in one multi, and wait until they went on.

    timeout_s: for each of the two waits. before_write: told the plan before each try, for a backup.
    Raises: ResetRequestError if not all owners hold still in time or another reset is under way, with nothing written;
    OffsetsChangedError if they go on committing; others as write_plan.
    """
    clock = clock or SystemClock()
    plan = plan.for_members()
    partitions = frozenset(change.partition for change in plan.to_write)
    request = Request(secrets.token_hex(8), RequestState.PREPARE, partitions)
    with _requested(store, plan.group, request):
        waiting = _wait(store, plan.group, request, AnswerState.READY, timeout_s, clock)
        if waiting:
            some = ", ".join(waiting[:_SHOWN]) + (", ..." if len(waiting) > _SHOWN else "")
            reason = (
                f"no answer within {timeout_s:g} s from {some}; stop JVM members, which cannot follow a reset, or "
                "raise --timeout for slow members"
            )
            raise ResetRequestError(plan.group, reason)
        applied = encode_request(replace(request, state=RequestState.APPLIED))
        also = (SetOp(request_path(plan.group), applied, 0),)
        for attempt in range(_TRIES):
            plan = _again(plan, read_standings(store, plan.group))
            before_write(plan)
            if _missing(store, plan.group, request, AnswerState.READY):
                raise ResetRequestError(plan.group, _MOVED)
            try:
                written = write_plan(store, plan, force=True, held=True, also=also, on_progress=on_progress)
            except OffsetsChangedError:
                # what was in a user's hand was committed, or an owner gave its partition up
                if attempt == _TRIES - 1:
                    raise
            else:
                break
        unanswered = _wait(store, plan.group, request, AnswerState.DONE, timeout_s, clock)
        return Followed(written, plan, unanswered)


@contextlib.contextmanager
def _requested(store: ZkStore, group: str, request: Request) -> Iterator[None]:
    """Keep the request in ZooKeeper for the time of the block; delete the folders that it created."""
    path = request_path(group)
    # members that run with zookeeper.set.acl keep it
    kept = store.exists(answers_path(group)) is not None
    store.ensure_path(answers_path(group))
    try:
        store.create(path, encode_request(request), ephemeral=True)
    except NodeExistsError as error:
        standing = standing_reset(store, group)
        said = "another reset has just ended; try again" if standing is None else f"{standing.text}; {standing.advice}"
        raise ResetRequestError(group, said) from error
    try:
        yield
    finally:
        with contextlib.suppress(NoNodeError):
            store.delete(path)
        if not kept:
            with contextlib.suppress(NoNodeError, NotEmptyError):
                store.delete(answers_path(group))
                store.delete(path.rpartition("/")[0])


def _again(plan: OffsetPlan, standings: Mapping[TopicPartition, Standing]) -> OffsetPlan:
    """Return the plan with the offsets that the owners committed last. Partitions without owner stay as planned."""
    now = {change.partition: standings.get(change.partition, Standing()) for change in plan.changes}
    changes = tuple(
        change if now[change.partition].owner is None else replace(change, before=now[change.partition])
        for change in plan.changes
    )
    return replace(plan, changes=changes)


def _wait(
    store: ZkStore, group: str, request: Request, state: AnswerState, timeout_s: float, clock: Clock
) -> tuple[str, ...]:
    """Wait until the owner of each partition has answered for it. Returns: owners that have not.

    Raises: ResetRequestError if one refuses to hold still.
    """
    deadline = clock.monotonic() + timeout_s
    never = threading.Event()
    while True:
        missing = _missing(store, group, request, state)
        if not missing or clock.monotonic() >= deadline:
            return missing
        clock.wait(never, _LOOK_S)


def _missing(store: ZkStore, group: str, request: Request, state: AnswerState) -> tuple[str, ...]:
    partitions = sorted(request.partitions)
    znodes = store.get_data_many([OwnerPath(group, *tp).path for tp in partitions])
    owners = {
        tp: (owner_id((znode.data or b"").decode("utf-8", "backslashreplace")), znode.stat.ephemeral_owner)
        for tp, znode in zip(partitions, znodes, strict=True)
        if znode is not None
    }
    answers = _answers(store, group, {name for name, _ in owners.values()})
    missing: dict[str, None] = {}
    if state is AnswerState.READY:
        # a member that is about to claim a partition may have read its offset already
        missing = {f"the next owner of {tp}": None for tp in _to_be_claimed(store, group, partitions, owners)}
    for tp, (owner, session_id) in owners.items():
        # anybody may write an answer in its name
        answer = answers.get((owner, session_id))
        if answer is not None and answer.request_id == request.request_id:
            # a member that comes after the write has no say in it
            if answer.state is AnswerState.REFUSED and state is AnswerState.READY:
                raise ResetRequestError(group, f"{owner} refuses: {answer.reason}; stop it first")
            if answer.state is state and tp in answer.partitions:
                continue
        missing[owner] = None
    return tuple(missing)


def _to_be_claimed(
    store: ZkStore, group: str, partitions: Sequence[TopicPartition], owners: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Partitions without an owner of topics that a member subscribes to."""
    free = [tp for tp in partitions if tp not in owners]
    snapshot = read_snapshots(store, read_members(store, [group])).get(group) if free else None
    if snapshot is None:
        return []
    there = {topic: frozenset(snapshot.partitions.get(topic, ())) for topic in {tp.topic for tp in free}}
    return [tp for tp in free if tp.partition in there[tp.topic]]


def _answers(store: ZkStore, group: str, owners: set[str]) -> dict[tuple[str, int], Answer]:
    """{(consumer id, the session that answered): answer}."""
    names = sorted(name for name in owners if name and "/" not in name)
    paths = [answer_path(group, name) for name in names]
    found: dict[tuple[str, int], Answer] = {}
    for name, path, znode in zip(names, paths, store.get_data_many(paths), strict=True):
        if znode is None or not znode.stat.ephemeral_owner:
            continue
        with contextlib.suppress(MalformedZnodeError):
            found[name, znode.stat.ephemeral_owner] = decode_answer(path, znode.data)
    return found
