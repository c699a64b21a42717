"""Judges a history: lost and repeated messages, deliveries and commits of members that did not own the partition.

Pure: events in, figures and violations out. It relies on the messages and commits that members recorded, and on the
observer's view of ZooKeeper; it does not look inside members.

lost            Members hand out every acknowledged message at least once. After an operator's reset forward, only the
                messages from the offset before to the written one may be missing.
not moved       After a user's seek, the first message that the user asks for is at the sought offset. Messages that an
                operator moved back over with `offsets reset --live` come again, if the command says that it is done.
paused          A member hands out no message of a partition that its user has paused, until the user resumes it.
wrong           A member hands out at each offset, byte for byte, the message that was acknowledged there.
aborted         A read_committed member hands out no message of an aborted transaction.
order           A life begins at the offset that was committed when it began, and continues without gap or repetition,
                except for a jump to an offset that another client wrote meanwhile, or that its user sought. An offset
                without an acknowledged message is no gap: it holds the end of a transaction, or an aborted message.
again           Messages that a member handed out before it released a partition in order do not come again. After a
                forced hand-over (a kill, a session's end, a theft, a freeze), only messages that were not committed
                come again. Messages in hand when the user's code calls shutdown() may come again: a signal handler may
                have called it.
two owners      No member hands out a message of a partition after another member's life of it has begun. A member whose
                owner znode a JVM member or a stranger deleted may, until its next audit. Messages of JVM members are
                only counted.
after thaw      A Python member that was frozen for longer than its session hands out no message of partitions that it
                owned before; except in one call that had found the lease to hold before the freeze. No further check
                of the lease can prevent that, because there is always a last one; it is counted as in_the_act.
zombie commit   No commit succeeds after another member has claimed the partition and read the offset.
committed ahead No commit is beyond the messages that its member handed out.
backwards       No commit of a Python member is below the offset before, unless an operator or a JVM member wrote that
                one, or its user sought back.
not settled     After each fault every partition flows again in time.
broken          No member's process and no stream ends with an error. A command ends in time, with the code 0 or 1, and
                without a traceback.
left behind     When all members have left there are no owner znodes, and the last handed out messages are committed.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tests.chaos.history import Event
from tests.chaos.lives import JVM, OPERATOR, PYTHON, UNSEEN, CommitTry, Delivery, Life, Move, Story, Write
from tests.chaos.settling import Flow


@dataclass(frozen=True)
class Rules:
    """Bounds in seconds.

    audit_slack_s: how long an audit may wait until its member has settled. settle_s: how long settling may take.
    """

    audit_s: float
    session_timeout_s: float
    audit_slack_s: float = 10.0
    settle_s: float = 60.0


def check(events: Iterable[Event], rules: Rules) -> dict:
    """Return the figures; "violations" lists the broken promises, each text with its name in front."""
    story = Story(events)
    found: list[str] = []
    figures = {
        "acknowledged": sum(map(len, story.acked.values())),
        "delivered": sum(d.last - d.first + 1 for d in story.deliveries),
        **_check_lost(story, found),
        **_check_contents(story, found),
        **_check_order(story, found),
        **_check_moved(story, found),
        **_check_paused(story, found),
        **_check_repeated(story, found),
        **_check_owners(story, rules, found),
        **_check_zombie_commits(story, found),
        **_check_committed_ahead(story, found),
        **_check_backwards(story, found),
        **_check_settled(story, rules, found),
        "fetchers": sorted(story.fetchers),
        "interrupts": story.interrupts,
        "threads_died": story.deaths,
        "told_to_end": len(story.told_to_end),
        "commands": _check_commands(story, found),
        "sessions_expired": story.expired,
        "degraded": story.degraded,
        "streams_failed": story.failed,
    }
    found += [f"broken: the stream of {text}" for text in story.failed]
    found += [f"broken: {text}" for text in story.broken]
    _check_the_end(story, found)
    return {**figures, "violations": found}


def _check_lost(story: Story, found: list[str]) -> dict:
    handed_out: dict[int, set[int]] = defaultdict(set)
    for delivery in story.deliveries:
        handed_out[delivery.partition].update(range(delivery.first, delivery.last + 1))
    skipped = lost = 0
    for partition, acked in sorted(story.acked.items()):
        missing = sorted(acked.keys() - handed_out[partition])
        moves = [move for move in story.moves if move.who == OPERATOR and move.partition == partition]
        allowed = [range(move.before, move.offset) for move in moves]
        gone = [offset for offset in missing if not any(offset in skip for skip in allowed)]
        skipped += len(missing) - len(gone)
        lost += len(gone)
        if gone:
            found.append(f"lost: {len(gone)} messages of {partition}, the first is {gone[0]}, the last {gone[-1]}")
    return {"lost": lost, "skipped_by_operator": skipped}


def _check_contents(story: Story, found: list[str]) -> dict:
    wrong = aborted = 0
    for delivery in story.deliveries:
        if story.kinds.get(delivery.who) != PYTHON:
            continue  # JVM members record only offsets
        acked, undone = story.acked[delivery.partition], story.aborted[delivery.partition]
        offsets = range(delivery.first, delivery.last + 1)
        differing = [offset for offset in offsets if not _is_right(delivery, offset, acked, undone)]
        if differing:
            wrong += len(differing)
            found.append(f"wrong: {_told(delivery)}, {len(differing)} of them are not what was acknowledged there")
        if delivery.who in story.reads_committed and (of_aborted := [offset for offset in offsets if offset in undone]):
            aborted += len(of_aborted)
            found.append(f"aborted: {_told(delivery)}, {len(of_aborted)} of them of aborted transactions")
    return {"wrong": wrong, "aborted_handed_out": aborted, "aborted": sum(map(len, story.aborted.values()))}


def _is_right(
    delivery: Delivery, offset: int, acked: Mapping[int, tuple[int, float]], undone: Mapping[int, int]
) -> bool:
    if delivery.seq is None:
        return False
    produced = acked[offset][0] if offset in acked else undone.get(offset)
    # None: the offset of a producer's try whose answer was lost is not known
    return produced is None or produced == delivery.seq + offset - delivery.first


def _check_order(story: Story, found: list[str]) -> dict:
    for delivery in story.deliveries:
        if delivery.life is None and story.kinds.get(delivery.who) == PYTHON:
            found.append(f"order: {_told(delivery)} and was never assigned it")
    handed_out = _deliveries_by_life(story)
    for partition, lives in story.lives.items():
        for life in lives:
            if life.kind == PYTHON:
                _check_order_in(life, handed_out[id(life)], story.acked[partition], found)
    return {}


def _deliveries_by_life(story: Story) -> Mapping[int, list[Delivery]]:
    by_life: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in story.deliveries:
        by_life[id(delivery.life)].append(delivery)
    return by_life


def _check_order_in(life: Life, deliveries: Iterable[Delivery], acked: Collection[int], found: list[str]) -> None:
    expected = life.start or 0
    sought = list(life.sought)
    what = "begins"
    for delivery in deliveries:
        first, rule = delivery.first, "order"
        while sought and sought[0].ended < delivery.asked:
            expected, rule = sought.pop(0).offset, "not moved"
        # a seek from another thread during the call may have come first
        beside = [move for move in sought if move.began < delivery.at and _follows(first, move.offset, acked)]
        if beside:
            del sought[: sought.index(beside[0]) + 1]
        elif not any(_follows(first, before, acked) for before in (expected, *life.foreign)):
            found.append(
                f"{rule}: {life.who}'s life of {life.partition} from {life.began:.3f} {what} at {first}, "
                f"not at {expected}, at {delivery.at:.3f}"
            )
        expected, what = delivery.last + 1, "goes on"


def _follows(first: int, expected: int, acked: Collection[int]) -> bool:
    return first >= expected and not any(offset in acked for offset in range(expected, first))


def _check_moved(story: Story, found: list[str]) -> dict:
    for move in story.moves:
        if not move.sure or _is_moved_again(story, move):
            continue
        again = min((x for x in story.acked[move.partition] if move.offset <= x < move.before), default=None)
        if again is not None and not any(
            delivery.partition == move.partition and delivery.first <= again <= delivery.last
            for delivery in story.deliveries
            if delivery.at > move.began
        ):
            found.append(f"not moved: a reset of {move.partition} to {move.offset} at {move.began:.3f}; nobody follows")
    return {"moves": dict(Counter("operator" if move.who == OPERATOR else "user" for move in story.moves))}


def _is_moved_again(story: Story, move: Move) -> bool:
    """Return whether another seek or reset moved the partition at the same time, or later."""
    return any(
        other is not move and other.partition == move.partition and other.ended > move.began for other in story.moves
    )


def _check_paused(story: Story, found: list[str]) -> dict:
    by_life = _deliveries_by_life(story)
    for pause in story.pauses:
        for delivery in by_life[id(pause.life)]:
            if delivery.asked > pause.since and delivery.at < pause.until:
                found.append(f"paused: {_told(delivery)}, paused since {pause.since:.3f}")
    return {"pauses": len(story.pauses)}


def _check_commands(story: Story, found: list[str]) -> dict:
    for event in story.commands:
        if event["code"] not in (0, 1) or "Traceback" in event["said"]:
            found.append(f"broken: {event['command']} ended with code {event['code']}: {event['said']}")
    return dict(sorted(Counter(f"{event['command']}: {event['code']}" for event in story.commands).items()))


def _check_repeated(story: Story, found: list[str]) -> dict:
    """Find the cause of each repeated message; count the causes, and report messages without a good cause."""
    causes: Counter[str] = Counter()
    last: dict[int, dict[int, Delivery]] = defaultdict(dict)
    for delivery in story.deliveries:
        seen = last[delivery.partition]
        told = False
        for offset in range(delivery.first, delivery.last + 1):
            if offset in seen:
                cause = _cause(story, seen[offset], delivery, offset)
                causes[cause] += 1
                if cause == "again" and not told:
                    told = True
                    before = seen[offset].life
                    found.append(
                        f"again: {_told(delivery)}, offset {offset} of {_whose(before)}, given up {before.ended:.3f}"
                    )
            seen[offset] = delivery
    return {"duplicates": causes.total(), "duplicates_by_cause": dict(sorted(causes.items()))}


def _cause(story: Story, earlier: Delivery, delivery: Delivery, offset: int) -> str:
    before, life = earlier.life, delivery.life
    if life is None or before is None:
        return "JVM member" if JVM in (story.kinds[earlier.who], story.kinds[delivery.who]) else "never assigned"
    since = before.began
    for move in story.moves:
        if (
            move.partition == life.partition
            and move.began < delivery.at
            and move.offset <= offset
            # a seek holds when it returns; a member learns of an operator's write at its next commit
            and (before.began if move.who == OPERATOR else earlier.asked) < move.ended
        ):
            return "operator" if move.who == OPERATOR else "seek"
    if JVM in (before.kind, life.kind) or _is_moved_by_jvm(story, life, offset, since):
        return "JVM member"
    if before is life:
        return "own jump"
    if life.began < before.began:
        return "too late"  # a member that no longer owns the partition; _check_owners judges that
    if any(before.began < frozen < before.ended for frozen, _ in story.freezes[before.who]):
        return "frozen"
    if before.how == "killed":
        return "killed"
    if before.how == "dropped":
        return "session lost" if before.session_ended else "stolen"
    if before.how in ("released", "left"):
        if _was_in_hand_at_shutdown(story, earlier):
            return "in hand at shutdown"
        if story.is_robbed(before):
            return "stolen"
        # an orderly release ends before the next member claims, so this one ended after its session had ended
        return "session lost" if before.session_ended or life.began < before.ended else "again"
    return "two owners"


def _was_in_hand_at_shutdown(story: Story, delivery: Delivery) -> bool:
    """Return whether these were in the consuming thread's hand when a signal handler called shutdown() on it."""
    told = story.told_to_end.get(delivery.who)
    if told is None or told["call"] != "shutdown" or told["on"] != "main":
        return False
    return delivery.asked == max(other.asked for other in story.deliveries if other.who == delivery.who)


def _is_moved_by_jvm(story: Story, life: Life, offset: int, since: float) -> bool:
    """Return whether a write of neither a Python member nor an operator moved the offset back."""
    return story.has_jvm and any(
        write.who == UNSEEN and write.offset <= offset and since < write.at <= life.ended
        for write in story.writes[life.partition].values()
    )


def _check_owners(story: Story, rules: Rules, found: list[str]) -> dict:
    counted: Counter[str] = Counter()
    latest = 0.0
    acts: dict[tuple[str, float], float] = {}
    for delivery in story.deliveries:
        life, count = delivery.life, delivery.last - delivery.first + 1
        if life is None:
            continue
        freeze = story.freeze_between(delivery.who, life.began, delivery.at) if life.kind == PYTHON else None
        if freeze is not None:
            frozen, thawed = freeze
            if _was_leased(delivery, thawed) and acts.setdefault((delivery.who, frozen), delivery.at) == delivery.at:
                counted["in_the_act"] += count
                continue
            counted["after_thaw"] += count
            latest = max(latest, delivery.at - thawed)
            found.append(f"after thaw: {_told(delivery)}, {1000 * (delivery.at - thawed):.1f} ms after it was thawed")
            continue
        other = story.superseding(life, before=delivery.at)
        if other is None:
            continue
        late_s = delivery.at - other.began
        if life.kind == JVM:
            counted["by_jvm_zombies"] += count
        elif _is_robbed(story, life, other) and late_s <= rules.audit_s + rules.audit_slack_s:
            counted["by_robbed_members"] += count
        else:
            counted["two_owners"] += count
            found.append(f"two owners: {_told(delivery)}, {late_s:.3f} s after {_whose(other)} began")
    names = ("two_owners", "after_thaw", "in_the_act", "by_robbed_members", "by_jvm_zombies")
    return {
        "delivered_without_owning": {name: counted[name] for name in names},
        "latest_delivery_after_thaw_ms": round(1000 * latest, 1),
    }


def _is_robbed(story: Story, life: Life, other: Life) -> bool:
    """Return whether another client deleted the owner znode of this life while its session lived on.

    A JVM member deletes by path, without a check of the owner. Then the other life begins before this one ends, and
    this one may also end in a release, if its member must release the partition before it knows of the loss.
    """
    if life.how not in ("dropped", "released") or life.ended <= other.began:
        return False
    return story.is_robbed(life, before=other.began) or (story.has_jvm and not life.session_ended)


def _was_leased(delivery: Delivery, thawed: float) -> bool:
    """Return whether the call that returned these messages had checked the lease before its process was frozen.

    A frozen process checks nothing, and the runner thaws it after it has recorded the time: so a check before that time
    was before the freeze.
    """
    return delivery.looked is not None and delivery.asked <= delivery.looked < thawed


def _check_zombie_commits(story: Story, found: list[str]) -> dict:
    counted: Counter[str] = Counter()
    for commit in story.commits:
        life = commit.life
        if life is None:
            found.append(f"zombie commit: {commit.who} commits {commit.partition}, which it never owned")
            continue
        other = story.superseding(life, before=commit.at)
        if other is None:
            continue
        if commit.outcome != "committed":
            counted["refused" if commit.outcome in ("foreign", "unowned") else commit.outcome] += 1
        elif other.kind == PYTHON and (commit.version or 0) <= other.version:
            continue  # written before the other member read the offset
        elif other.kind == JVM and commit.began <= other.began:
            continue  # perhaps written before the other member's claim
        elif _is_robbed(story, life, other):
            counted["by a robbed member"] += 1
        else:
            counted["accepted"] += 1
            found.append(
                f"zombie commit: {commit.who} commits {commit.offset} of {commit.partition} at {commit.at:.3f}, "
                f"{_whose(other)} began at {other.began:.3f}"
            )
    return {"zombie_commits": {"accepted": 0, **dict(sorted(counted.items()))}}


def _check_committed_ahead(story: Story, found: list[str]) -> dict:
    for commit in story.commits:
        life = commit.life
        if life is None or commit.outcome != "committed":
            continue
        # the owner znode may be deleted while the commit is on its way: the commit is then of an earlier life
        own = [one for one in story.lives[commit.partition] if one is life or _is_earlier_of(commit, one)]
        reached = max((last + 1 for one in own for at, _, last in one.runs if at <= commit.at), default=0)
        reached = max(reached, life.start or 0, *life.foreign, 0)
        if commit.offset > reached and not _follows(commit.offset, reached, story.acked[commit.partition]):
            found.append(
                f"committed ahead: {commit.who} commits {commit.offset} of {commit.partition}, handed out to {reached}"
            )
    return {"commits": sum(commit.outcome == "committed" for commit in story.commits)}


def _is_earlier_of(commit: CommitTry, life: Life) -> bool:
    return life.who == commit.who and life.began <= commit.began < life.ended


def _check_backwards(story: Story, found: list[str]) -> dict:
    by_jvm = by_operator = by_seek = 0
    for partition, writes in sorted(story.writes.items()):
        before = None
        for version in sorted(writes):
            write = writes[version]
            if before is not None and write.offset < before.offset:
                unseen = UNSEEN in (write.who, before.who) or version > before.version + 1
                mover = _mover_between(story, partition, before, write)
                if OPERATOR in (write.who, before.who, mover):
                    by_operator += 1
                elif mover is not None:
                    by_seek += 1
                elif unseen and story.has_jvm:
                    by_jvm += 1
                else:
                    found.append(
                        f"backwards: {write.who} commits {write.offset} of {partition} over {before.who}'s "
                        f"{before.offset} at {write.at:.3f}"
                    )
            before = write
    return {"backwards": {"by_operator": by_operator, "by_seek": by_seek, "with_jvm": by_jvm}}


def _mover_between(story: Story, partition: int, before: Write, write: Write) -> str | None:
    """Return who moved the partition to this offset, or further back, since the write before began; None if nobody."""
    return next(
        (
            move.who
            for move in story.moves
            if move.partition == partition
            and move.offset <= write.offset
            and move.began < write.at
            and before.began <= move.ended
        ),
        None,
    )


def _check_settled(story: Story, rules: Rules, found: list[str]) -> dict:
    """Check for each fault how long it took until every partition flowed again, and how long messages waited."""
    flow = Flow(story)
    told = []
    faults = sorted(story.faults, key=lambda fault: fault.began)
    for fault in faults:
        # faults of one round settle together; the next fault begins after that
        flowed = min((at for at in story.flowed if at > fault.ended), default=math.inf)
        settled = flow.settled(fault, min((later.began for later in faults if later.began > flowed), default=None))
        told.append({**settled, "fault": fault.name, "target": fault.target, "seconds": fault.ended - fault.began})
        if settled["settle_s"] is None or settled["settle_s"] > rules.settle_s:
            found.append(f"not settled: after {fault.name} of {fault.target} at {fault.ended:.3f}: {settled}")
    by_name: dict[str, list[float]] = defaultdict(list)
    for one in told:
        if one["settle_s"] is not None:
            by_name[one["fault"]].append(one["settle_s"])
    return {
        "settle_s": {
            name: {"times": len(all_), "min": min(all_), "median": statistics.median(all_), "max": max(all_)}
            for name, all_ in sorted(by_name.items())
        },
        "faults": [{key: _rounded(value) for key, value in one.items()} for one in told],
    }


def _rounded(value):
    return round(value, 3) if isinstance(value, float) else value


def _check_the_end(story: Story, found: list[str]) -> None:
    if story.final is None:
        found.append("not settled: the run did not come to its end")
        return
    if story.final["owners"] or story.final["ids"]:
        found.append(f"left behind: owners {story.final['owners']}, members {story.final['ids']}")
    offsets = {int(partition): offset for partition, offset in story.final["offsets"].items()}
    for partition, lives in sorted(story.lives.items()):
        last = lives[-1]
        if last.kind != PYTHON or not last.runs:
            continue
        ended, committed = last.runs[-1][2] + 1, offsets.get(partition)
        if committed is None or not _follows(committed, ended, story.acked[partition]):
            found.append(f"left behind: {partition} is committed at {committed}, {_whose(last)} ended at {ended}")


def _told(delivery: Delivery) -> str:
    return f"{delivery.who} hands out {delivery.partition}@{delivery.first}..{delivery.last} at {delivery.at:.3f}"


def _whose(life: Life | None) -> str:
    return "nobody" if life is None else f"{life.who}'s life of {life.partition} from {life.began:.3f}"
