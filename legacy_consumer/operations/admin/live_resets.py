"""Writes a plan of offsets while a group runs: members of legacy-consumer hold the partitions, then follow.

legacy_consumer.member.resets.records describes the steps. JVM members cannot follow: while one owns a partition of
the plan, nothing is written. Right before the write the owners are read once more, and the multi fails if one of
them has released its partition since.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

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
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.errors import GroupDeletedError, OffsetsChangedError, ResetRequestError
from legacy_consumer.operations.admin.group_members import read_members
from legacy_consumer.operations.admin.group_snapshots import read_snapshots
from legacy_consumer.operations.admin.offset_plans import OffsetPlan, Standing, read_standings
from legacy_consumer.operations.admin.offset_writes import Written, write_plan
from rebalance.clock import Clock, SystemClock
from rebalance.group_strategy import owner_id
from zk_layout.errors import (
    BadVersionError,
    MalformedZnodeError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    ZooKeeperError,
)
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import GroupPath, OwnerPath
from zk_layout.store import DeleteOp, SetOp, ZkStore

logger = safe_logger(__name__)

Retarget: TypeAlias = Callable[[Mapping[TopicPartition, int | None]], Mapping[TopicPartition, int | None]]
"""{partition: committed offset} -> {partition: the offset to write}."""

_LOOK_S = 0.05
_TRIES = 5
_SHOWN = 3
_ENDED = "another reset has just ended; try again"
_GONE = "the request is gone: the session of this command ended, or somebody deleted the znode; try again"
_MOVED = "partitions changed their owners meanwhile; try again when `groups describe` shows no more changes"


@dataclass(frozen=True, slots=True)
class Followed:
    """written: as write_plan returns it. plan: the plan that was written, over the members' last commits.

    unanswered: owners that did not answer in time that they continue from the new offsets.
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
    progress: ChangeProgress | None = None,
    retarget: Retarget = lambda _: {},
    clock: Clock | None = None,
) -> Followed:
    """Have the owners hold the plan's partitions, write all offsets in one multi, and wait until the owners continue.

    timeout_s: for each of the two waits. before_write: called with the plan before each try, for a backup. progress: as
    in write_plan. retarget: called while the owners hold, with the partitions in which they have committed since the
    plan; returns new targets. Partitions that it leaves out keep their target.
    Raises: ResetRequestError if not all owners hold in time, another reset is under way, or the session of the request
    ends, with nothing written;
    OffsetsChangedError if the owners continue to commit; others as write_plan and retarget.
    """
    clock = clock or SystemClock()
    progress = progress or ChangeProgress()
    plan = plan.for_members()
    partitions = frozenset(change.partition for change in plan.to_write)
    request = Request(secrets.token_hex(8), RequestState.PREPARE, partitions)
    with _requested(store, plan.group, request) as session_id:
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
            plan = _again(plan, read_standings(store, plan.group), retarget)
            before_write(plan)
            if _missing(store, plan.group, request, AnswerState.READY):
                raise ResetRequestError(plan.group, _MOVED)
            try:
                written = write_plan(
                    store, plan, force=True, held_in=session_id, also=also, on_progress=on_progress, progress=progress
                )
            except OffsetsChangedError:
                # an owner has committed the messages in hand, or released its partition
                if attempt == _TRIES - 1:
                    raise
            except (SessionExpiredError, NoNodeError, BadVersionError) as error:
                if progress.may_be_changed:
                    raise
                raise ResetRequestError(plan.group, _GONE) from error
            else:
                break
        unanswered = _wait(store, plan.group, request, AnswerState.DONE, timeout_s, clock)
        return Followed(written, plan, unanswered)


@contextlib.contextmanager
def _requested(store: ZkStore, group: str, request: Request) -> Iterator[int]:
    """Keep the request in ZooKeeper for the time of the block; delete the folders that it created.

    A failed deletion is only logged: the block's result or error stays the same.
    Yields the session of the request. Raises: ResetRequestError, GroupDeletedError.
    """
    # the answers folder existed before: members with zookeeper.set.acl keep it
    kept = store.exists(answers_path(group)) is not None
    session_id = _ask(store, group, request)
    try:
        yield session_id
    finally:
        try:
            # if the session has ended, so has this request, and another operator's may stand there
            there = store.exists(request_path(group))
            if there is not None and there.ephemeral_owner == session_id:
                _delete(store, request_path(group), session_id=session_id)
            if not kept:
                # both or none: members may answer another operator's request in these folders
                _delete(store, answers_path(group), _folder(group))
        except ZooKeeperError as error:
            logger.warning(
                "group %s: the request of this reset may still be there; ZooKeeper deletes it when the session of this "
                "command ends: %s",
                group,
                error,
            )


def _folder(group: str) -> str:
    return request_path(group).rpartition("/")[0]


def _ask(store: ZkStore, group: str, request: Request) -> int:
    """Write the request and its folders, but never create a deleted group. Returns: the session of the request."""
    for _ in range(_TRIES):
        try:
            for path in (_folder(group), answers_path(group)):
                with contextlib.suppress(NodeExistsError):
                    store.create(path, None)
            created = store.create(request_path(group), encode_request(request), ephemeral=True)
            stat = store.exists(request_path(group))
            if stat is not None and stat.czxid == created:
                return stat.ephemeral_owner
            # the session has ended since, and the request with it
        except NodeExistsError as error:
            standing = standing_reset(store, group)
            said = _ENDED if standing is None else f"{standing.text}; {standing.advice}"
            raise ResetRequestError(group, said) from error
        except NoNodeError as error:
            if store.exists(GroupPath(group).path) is None:
                raise GroupDeletedError(group) from error
            # another operator's command ended and deleted the folders
    raise ResetRequestError(group, _ENDED)


def _delete(store: ZkStore, *paths: str, session_id: int | None = None) -> None:
    """Delete all of these znodes or none, and only in this session."""
    try:
        store.multi([DeleteOp(path) for path in paths], session_id=session_id)
    except SessionExpiredError:
        pass
    except MultiFailedError as error:
        if not isinstance(error.cause, (NoNodeError, NotEmptyError)):
            raise error.cause from error


def _again(plan: OffsetPlan, standings: Mapping[TopicPartition, Standing], retarget: Retarget) -> OffsetPlan:
    """Return the plan with the offsets that the owners committed last. Partitions without an owner stay as planned."""
    held = {tp: standing for tp, standing in standings.items() if standing.owner is not None}
    changes = [replace(change, before=held.get(change.partition, change.before)) for change in plan.changes]
    moved = {
        now.partition: now.before.offset
        for now, change in zip(changes, plan.changes, strict=True)
        if now.before.offset != change.before.offset
    }
    after = retarget(moved) if moved else {}
    changes = [replace(change, after=after.get(change.partition, change.after)) for change in changes]
    return replace(plan, changes=tuple(changes))


def _wait(
    store: ZkStore, group: str, request: Request, state: AnswerState, timeout_s: float, clock: Clock
) -> tuple[str, ...]:
    """Wait until the owner of each partition has answered for it. Returns: the owners that have not.

    Raises: ResetRequestError if an owner refuses to hold, or the request is gone.
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
    asked, *znodes = store.get_data_many([request_path(group), *(OwnerPath(group, *tp).path for tp in partitions)])
    if state is AnswerState.READY and (asked is None or asked.data != encode_request(request)):
        raise ResetRequestError(group, _GONE)
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
        # any client may write an answer under the owner's name, so the owner's session must have written it
        answer = answers.get((owner, session_id))
        if answer is not None and answer.request_id == request.request_id:
            # after the write a refusal changes nothing
            if answer.state is AnswerState.REFUSED and state is AnswerState.READY:
                raise ResetRequestError(group, f"{owner} refuses: {answer.reason}; stop it first")
            if answer.state is state and tp in answer.partitions:
                continue
        missing[owner] = None
    return tuple(missing)


def _to_be_claimed(
    store: ZkStore, group: str, partitions: Sequence[TopicPartition], owners: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions without an owner, of topics that a member subscribes to."""
    free = [tp for tp in partitions if tp not in owners]
    snapshot = read_snapshots(store, read_members(store, [group])).get(group) if free else None
    if snapshot is None:
        return []
    there = {topic: frozenset(snapshot.partitions.get(topic, ())) for topic in {tp.topic for tp in free}}
    return [tp for tp in free if tp.partition in there[tp.topic]]


def _answers(store: ZkStore, group: str, owners: set[str]) -> dict[tuple[str, int], Answer]:
    """Return {(consumer id, the session that answered): answer}."""
    names = sorted(name for name in owners if name and "/" not in name)
    paths = [answer_path(group, name) for name in names]
    found: dict[tuple[str, int], Answer] = {}
    for name, path, znode in zip(names, paths, store.get_data_many(paths), strict=True):
        if znode is None or not znode.stat.ephemeral_owner:
            continue
        with contextlib.suppress(MalformedZnodeError):
            found[name, znode.stat.ephemeral_owner] = decode_answer(path, znode.data)
    return found
