"""Judges a history, event by event: which member owned, handed out and committed what.

The checker does not look inside members. It sees ownership in the owner znodes, messages in what users took and
finished, offsets in what clients wrote. Here, a *life* is one member's ownership of one partition, from the owner
znode's creation to its end.

The fencing bound. A member may hand out messages of a partition that it has just lost only while it could not know:
- its session ended: until its coordinator has come to rest after the member got the event (EXPIRED, or CONNECTED with a
  new id);
- its connection was cut: until its coordinator has come to rest suspicion_ms or more after the member got SUSPENDED. In
  a world whose coordinators take their turns in time, that is always before the cut can make the session expire: there,
  no message comes later;
- another client deleted its owner znode by path, as a JVM member does: until audit_ms and AUDIT_SLACK_S have passed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance.machine import Phase
from zk_layout.errors import NotPermittedError, ZooKeeperError
from zk_layout.store import SessionKind

AUDIT_SLACK_S = 20.0
"""Seconds for which an audit may wait until its member has settled: a drain, retries of a claim, an expiry."""


class Violation(BaseException):
    """A promise is broken. check: its short name. Not an Exception, which the code under test could catch."""

    def __init__(self, check, text):
        super().__init__(f"{check}: {text}")
        self.check = check


@dataclass(slots=True)
class Life:
    """One ownership of one partition by one session."""

    actor: str
    session: int
    began: float
    starts: set
    """The committed offsets from which the member may begin to read."""
    foreign: set = field(default_factory=set)
    """Offsets that other clients wrote during the life."""
    adoptable: set = field(default_factory=set)
    """The foreign offsets that were written before or while the member could follow a reset of the partition."""
    unadopted: int | None = None
    """The last foreign offset, until the member hands out its message, or cannot tell the offset from its own."""
    reset: int | None = None
    """The offset that an operator wrote in the running group, until the member hands it out or overwrites it."""
    has_lost_versions: bool = False
    """Whether the offset's znode was deleted during the life."""
    has_written_since: bool = False
    """Whether the member has written the offset after that deletion, and so knows its version again."""
    next_offset: int | None = None
    """The offset after the last message that the member handed out."""
    blips: int = 0
    """The number of the member's blips when it last handed out a message."""
    restarts: set[int] = field(default_factory=set)
    """Offsets committed since the first later blip: after a release that failed, the member begins again at one."""
    applied: set[int] = field(default_factory=set)
    """Offsets committed while the member could follow a stranger's false "applied" of a reset; also its own."""
    user: int = 0
    """The user that took the last message."""
    acked: int | None = None
    """The offset after the last message that the user finished while the coordinator was at rest."""
    done: int | None = None
    """The offset after the last message that the user finished: the member's next commit may write it."""
    waiting: set[int] = field(default_factory=set)
    """With delivery.rule=acknowledged: the offsets handed out and not acknowledged."""
    unanswered: set[int] = field(default_factory=set)
    """The offsets of the member's unanswered commits: it cannot tell such a write from another client's of the same."""
    untold: int | None = None
    """The last foreign offset that Kafka's coordinator keeps, until it has told the member."""
    written: set[int] = field(default_factory=set)
    """With offsets in Kafka: all that the member wrote. Without versions, another client's same offset looks alike."""
    sought: int | None = None
    """The lowest offset to which users sought: a commit may go back as far."""
    may_begin_at_end: bool = False
    """Whether no offset was committed when the life began, or an operator deleted it later: see begins_at_end."""
    is_placed: bool = False
    """Whether the member has a position: a message, or the log's end, has told it where the partition begins."""
    is_of_deleted: bool = False
    """Whether the topic was deleted and the member may not know that, so that its offsets mean nothing."""
    doubtful: set[int] = field(default_factory=set)
    """Offsets that users committed by name, without an answer yet: the next commit may write a smaller one."""
    ended: float | None = None
    ended_after: int = 0
    """The number of events of the history at its end."""
    how: str = ""
    informed: bool = False


@dataclass(slots=True)
class Actor:
    """The facts that the checker knows of a member of ours."""

    session: int = 0
    suspended_at: float | None = None
    blips: int = 0
    """How often the member lost its connection or a request while it may have been releasing partitions."""
    told_of_end: bool = False
    must_pause: bool = False
    forbidden_at: float = -1.0
    """The world's time when an ACL last refused a request of the member."""
    busy: bool = False
    phase: Phase = Phase.CREATED
    resetting: frozenset = frozenset()
    """Partitions that the member may hold, or may not have continued yet, because of a live reset."""


class Checker:
    """Raises Violation at the event that breaks a promise. Actors that are no members of ours are foreign."""

    def __init__(self, history, settings):
        self.settings = settings
        self.actors = {}
        self.owner_of_session = {}
        self.owners = {}
        """{partition: its present life}, of our members and of others."""
        self.lives = {}
        """{(member of ours, partition): the latest life}."""
        self.offsets = {}
        """{partition: (committed offset, the name of the client that wrote it)}."""
        self.not_from_members = set()
        """The partitions whose committed offset came from another client; members may have written it once more."""
        self.paused = set()
        """{(member, partition)} that users have paused."""
        self.ends = {}
        self.acked = {}
        """{partition: offsets of messages that a user has finished, or that a user or an operator skipped}."""
        self.forbidden = set()
        """Partitions whose offset znodes an ACL forbids members to write, or once forbade."""
        self.acked_up_to = {}
        self.taken = {}
        self.registered = {}
        """{consumer id: the session that registered it}."""
        self.deleted = set()
        """Partitions whose offset an operator deleted, and no client has written since: see begins_at_end."""
        self.careful = set()
        """Operators whose command may change nothing while the group has members."""
        self.begins_at_end = False
        """Whether a partition without an offset begins at the end of its log: auto.offset.reset=largest."""
        self.failed_polls = set()
        """Members whose fetchers have raised a FetchError in the call for messages that is under way."""
        self.placing = None
        """The Placing: topics whose offsets users keep, and whether partitions without an offset wait for users."""
        self.acknowledges = False
        """Whether users acknowledge messages by name, in any order."""
        self.requested = frozenset()
        """Partitions in the present request for a reset."""
        self.told_applied = False
        """Whether a stranger has written that a reset is applied: members then continue from the committed offsets."""
        self.unheard = {}
        """{member: partitions whose owner znodes another client deleted since ZooKeeper last answered the member}."""
        self.is_in_kafka = False
        """Whether offsets are only in Kafka: the checker then ignores offset znodes."""
        self.is_dual = False
        """Whether offsets are in ZooKeeper and in Kafka; self.offsets then holds ZooKeeper's."""
        self.in_kafka = {}
        """{partition: Kafka's offset}, if offsets are in both."""
        self.wrote = {}
        """{(client, partition): all offsets that it wrote to ZooKeeper, or to Kafka if they are only there}."""
        self.wrote_to_kafka = {}
        self.named = {}
        """{(member, partition): all offsets that users committed by name}."""
        self.unreadable = set()
        """Partitions whose offset znodes hold unreadable data."""
        self.checked_at = {}
        """{member: the number of events when ZooKeeper last carried out a transaction of it}."""
        self.stood_when_checked = {}
        """{member: {partition: ZooKeeper's offsets at the requests of its commit}}, if offsets are in both."""
        self.answered_at = {}
        """{member: the number of events when ZooKeeper, or Kafka's coordinator, last answered it}."""
        self.kept_at = {}
        """{partition: the number of events when Kafka's coordinator last kept an offset of it}."""
        self.deletions = {}
        """{topic: number of its deletions}."""
        self.gone = set()
        self.unaware = set()
        """{(member, topic)}: a member at the topic's last deletion that has given up no partition of the new topic."""
        self.fetched = {}
        """{(member, partition, offset): the topic's number of deletions when fetched}, in worlds that delete topics."""
        self.deliveries = 0
        self.duplicates = 0
        self._history = history
        history.observers |= {
            "member": self.on_member,
            "session": self.on_session,
            "ended": self.on_ended,
            "told": self.on_told,
            "turn": self.on_turn,
            "rest": self.on_rest,
            "id+": self.on_id_created,
            "id-": self.on_id_deleted,
            "owner+": self.on_owner_created,
            "owner-": self.on_owner_deleted,
            "offset": self.on_offset,
            "offset-": self.on_offset_deleted,
            "kept": self.on_kept,
            "committed": self.on_committed,
            "forgotten": self.on_forgotten,
            "no answer": self.on_interrupted,
            "garbled": self.on_garbled,
            "topic deleted": self.on_topic_deleted,
            "topic created": self.on_topic_created,
            "produced": self.on_produced,
            "took": self.on_took,
            "acked": self.on_acked,
            "may be acked": self.on_may_be_acked,
            "end found": self.on_end_found,
            "placed": self.on_placed,
            "poll fails": self.on_poll_fails,
            "sought": self.on_sought,
            "named": self.on_named,
            "position": self.on_position,
            "begins": self.on_begins,
            "paused": self.on_paused,
            "resumed": self.on_resumed,
            "request": self.on_request,
            "operator": self.on_operator,
            "stranger": self.on_stranger,
            "refused": self.on_refused,
            "denied": self.on_denied,
            "interrupted": self.on_interrupted,
            "forbidden": self.on_forbidden,
        }

    # Membership and sessions.

    def on_member(self, now, name):
        self.actors[name] = Actor(resetting=self.requested)

    def on_session(self, now, name, session):
        self.owner_of_session[session] = name

    def on_ended(self, now, session, reason):
        actor = self.actors.get(self.owner_of_session.get(session, ""))
        if actor is None:
            return
        for life in self.lives.values():
            if life.session == session and life.ended is None:
                life.how = "its session expired" if reason == "expired" else "its session ended"

    def on_told(self, now, name, kind, session):
        actor = self.actors[name]
        if kind is SessionKind.SUSPENDED:
            self._note_unanswered(name)
            if actor.busy or actor.phase is not Phase.STABLE:
                self._note_blip(name, actor)
            if actor.suspended_at is None:
                actor.suspended_at = now
        elif kind is SessionKind.CONNECTED:
            actor.suspended_at, actor.must_pause = None, False
            if session != actor.session:
                # a commit between the two sessions got no answer
                self._note_unanswered(name)
                actor.told_of_end = actor.session != 0
                actor.session = session
        else:
            actor.told_of_end = True
            if kind is SessionKind.AUTH_FAILED:
                actor.session = 0

    def _note_unanswered(self, name):
        for (who, _), life in self.lives.items():
            if who == name and life.done is not None:
                life.unanswered.add(life.done)

    def _note_blip(self, name, actor):
        actor.blips += 1
        for (who, tp), life in self.lives.items():
            if who == name:
                life.restarts.add(self._standing(tp))

    def on_turn(self, now, name):
        self.actors[name].busy = True

    def on_rest(self, now, name, phase, owned):
        """The coordinator has nothing more to do now."""
        actor = self.actors[name]
        actor.busy = False
        actor.phase = phase
        if actor.told_of_end:
            actor.told_of_end = False
            for (who, _), life in self.lives.items():
                if who == name and life.session != actor.session:
                    life.informed = True
        # 1e-6: another timer's turn may come a rounding error before the suspicion is due, and need not pause yet
        if actor.suspended_at is not None and now >= actor.suspended_at + self.settings.suspicion_s + 1e-6:
            actor.must_pause = True
        if phase is Phase.STABLE and actor.suspended_at is None:
            self._check_claims(name, actor, owned)

    def _check_claims(self, name, actor, owned):
        """Check that a claim is all or nothing: a settled member knows all its owner znodes."""
        if actor.session not in self.owner_of_session:
            return
        for tp, life in self.owners.items():
            if life.session == actor.session and tp not in owned:
                raise Violation("half-made claim", f"{name} is settled and does not know that it owns {tp}")

    def on_id_created(self, now, session, consumer_id):
        self.registered[consumer_id] = session

    def on_id_deleted(self, now, session, consumer_id, how):
        self._check_careful(session, f"the registration {consumer_id}")
        registered = self.registered.pop(consumer_id)
        name = self.owner_of_session[session]
        if session != registered and name in self.actors:
            raise Violation("theft", f"{name} deletes the registration of {self.owner_of_session[registered]}")

    def _check_careful(self, session, what):
        name = self.owner_of_session[session]
        if name in self.careful and self.registered:
            raise Violation("careless", f"{name} changes {what}, and {sorted(self.registered)} are members")

    def on_refused(self, now, name, _kind, error, _done):
        """A request ended in an error: the member may begin partitions again, and may release without a commit."""
        actor = self.actors[name]
        if isinstance(error, NotPermittedError):
            actor.forbidden_at = now
        if isinstance(error, ZooKeeperError) and not error.retriable:
            for (who, tp), life in self.lives.items():
                if who == name:
                    self._note_lost_position(tp, life)
        self._note_unanswered(name)
        if actor.busy or actor.phase is not Phase.STABLE:
            self._note_blip(name, actor)
        for (who, _), life in self.lives.items():
            if who == name:
                life.acked = None

    def on_denied(self, now, session, path):
        """A member could not read an owner or a topic: it begins partitions again if it does not release them."""
        name = self.owner_of_session[session]
        if (actor := self.actors.get(name)) is not None and (actor.busy or actor.phase is not Phase.STABLE):
            self._note_blip(name, actor)

    def on_interrupted(self, now, name, *_):
        """A call was interrupted or not answered.

        A commit may have been carried out all the same, and a poll may not have counted what its user finished.
        """
        self._note_unanswered(name)
        for (who, _), life in self.lives.items():
            if who == name:
                life.acked = None

    def on_forbidden(self, now, tp):
        self.forbidden.add(tp)
        if tp in self.owners:
            self._note_lost_position(tp, self.owners[tp])

    # Ownership.

    def on_owner_created(self, now, session, tp, text):
        name = self.owner_of_session[session]
        has_none = tp not in self.offsets and tp not in self.in_kafka
        begins_at_end = self._standing(tp) is None
        is_unsaid = self._is_by_hand(tp) or begins_at_end or (self.placing.waits_for_users and has_none)
        life = Life(name, session, now, set() if is_unsaid else {self._standing(tp)})
        life.may_begin_at_end = begins_at_end
        # the member may begin it by what it read of the deleted topic; it begins it once more when it notices
        life.is_of_deleted = tp.topic in self.gone or (name, tp.topic) in self.unaware
        self.paused.discard((name, tp))
        if tp in self.owners:
            raise Violation("two owners", f"{tp} by {name} and {self.owners[tp].actor}")
        self.owners[tp] = life
        if name in self.actors:
            life.blips = self.actors[name].blips
            if (name, tp) in self.lives:
                last = self.lives[name, tp]
                if last.session == session or self.is_in_kafka:
                    # such a commit may be carried out in a later life, too; or another client writes the same offset
                    life.unanswered |= last.unanswered
                if self.is_in_kafka:
                    # a member may also commit to Kafka the offset where it began
                    life.unanswered |= last.starts
            self.lives[name, tp] = life

    def on_owner_deleted(self, now, session, tp, how):
        self._check_careful(session, f"the owner of {tp}")
        life = self.owners.pop(tp)
        if tp.topic not in self.gone:
            self.unaware.discard((life.actor, tp.topic))
        life.ended, life.ended_after = now, len(self._history.events)
        if how == "session ended" or session != life.session:
            self._note_lost_position(tp, life)
        if how == "session ended":
            life.how = life.how or how
        elif session != life.session:
            life.how = "stolen"
            thief = self.owner_of_session[session]
            self.unheard.setdefault(life.actor, set()).add(tp)
            # allowed between the last answer and the next request: ZooKeeper cannot check the owner of a znode
            if thief in self.actors and tp not in self.unheard.get(thief, ()):
                raise Violation("theft", f"{thief} deletes the owner znode of {tp}, which is {life.actor}'s")
        else:
            life.how = "released"
            self._check_release(life, tp)

    def _note_lost_position(self, tp, life):
        """Excuse a commit of an old position for a new topic: its member can no longer notice or correct that."""
        offset, by = self.offsets.get(tp, (0, ""))
        if life.is_of_deleted and by == life.actor:
            self._ack(tp, range(offset))
            self.offsets[tp] = (offset, f"{by}, lost")

    def _check_release(self, life, tp):
        """Check that the member committed all that its users finished of a partition that it releases."""
        if life.actor not in self.actors or not self.settings.auto_commit or life.acked is None or self._is_by_hand(tp):
            return
        if life.is_of_deleted:
            return
        if self._adoptable(life) or tp in self.forbidden or life.applied:
            return
        committed, by = self.offsets.get(tp, (0, ""))
        is_wanted = committed in self.named.get((life.actor, tp), ())
        if by in ("", life.actor) and committed < life.acked and not is_wanted:
            raise Violation("released uncommitted", f"{life.actor} released {tp} at {committed}, consumed {life.acked}")

    # Topics.

    def on_topic_deleted(self, now, topic):
        """Forget the topic's messages and offsets."""
        self.gone.add(topic)
        self.deletions[topic] = self.deletions.get(topic, 0) + 1
        self.unaware.update((name, topic) for name in self.actors)
        self._forget_topic(topic)

    def on_topic_created(self, now, topic):
        """Forget offsets that were committed while there was no topic: they are of the deleted one."""
        self.gone.discard(topic)
        self._forget_topic(topic)

    def _forget_topic(self, topic):
        for known in (self.ends, self.acked, self.acked_up_to, self.taken, self.offsets):
            for tp in [tp for tp in known if tp.topic == topic]:
                del known[tp]
        for known in (self.unreadable, self.deleted):
            known.difference_update([tp for tp in known if tp.topic == topic])
        for (_, tp), life in self.lives.items():
            if tp.topic == topic:
                life.is_of_deleted, life.next_offset = True, None

    def note_fetched(self, name, tp, offset):
        """Note that a fetcher hands a message to its stream."""
        self.fetched[name, tp, offset] = self.deletions.get(tp.topic, 0)

    # Messages.

    def on_produced(self, now, tp, end):
        self.ends[tp] = end

    def on_took(self, now, name, tp, offset, user):
        self.deliveries += 1
        actor = self.actors.get(name)
        taken = self.taken.setdefault(tp, set())
        if offset in taken:
            self.duplicates += 1
        taken.add(offset)
        if actor is None:
            return
        life = self.lives.get((name, tp))
        if life is None:
            raise Violation("never owned", f"{name} hands out {tp}@{offset}")
        if (name, tp) in self.paused:
            if actor.blips == life.blips and not life.is_of_deleted:
                raise Violation("not paused", f"{name} hands out {tp}@{offset}, which its user has paused")
            # the member has begun the partition again after a release that failed
            self.paused.discard((name, tp))
        if actor.must_pause:
            raise Violation("not paused", f"{name} hands out {tp}@{offset} though ZooKeeper is out of sight")
        if life.ended is not None:
            late = now - life.ended
            told = f"{name} hands out {tp}@{offset}, {life.how} {late:.3f} s ago"
            if life.how in ("released", "its session expired") or life.informed:
                raise Violation("zombie delivery", told)
            if life.how == "stolen" and late > self.settings.audit_s + AUDIT_SLACK_S:
                raise Violation("zombie delivery", told)
        if life.is_of_deleted:
            return
        expected = life.starts if life.next_offset is None else {life.next_offset}
        if actor.blips != life.blips:
            # a member whose release was lost begins again once it sees that nothing was released; an offset that
            # another client commits between that and the next message comes too late
            expected = expected | life.restarts
        expected = expected | life.applied
        if self._may_begin_anew(tp, life):
            expected = expected | {0}
        life.blips = actor.blips
        life.restarts.clear()
        life.applied.clear()
        self._note_adoptable(name, actor.resetting & {tp})
        life.user = user
        if offset != life.next_offset:
            life.waiting.clear()
        life.waiting.add(offset)
        if self.acknowledges:
            life.done = min(life.waiting)
        if offset == life.reset:
            life.reset = None
        if offset == life.unadopted:
            # without versions, the member cannot tell a later write of the same offset from this one
            life.starts.add(offset)
            life.unadopted = None
        if offset not in expected:
            if offset in (life.foreign if life.next_offset is None else self._adoptable(life)):
                life.next_offset = offset + 1
                return
            what = "again" if life.next_offset is not None and offset < life.next_offset else "out of turn"
            if life.next_offset is None:
                what = "from the wrong place"
            raise Violation("order", f"{name} hands out {tp}@{offset} {what}, expected {sorted(expected - {None})}")
        life.next_offset = offset + 1
        life.is_placed = True

    def on_acked(self, now, name, tp, offset, user):
        deletions = self.deletions.get(tp.topic, 0)
        if self.fetched.get((name, tp, offset), deletions) == deletions:
            self._ack(tp, (offset,))
        actor = self.actors.get(name)
        life = self.lives.get((name, tp)) if actor is not None else None
        if life is not None:
            life.waiting.discard(offset)
        if life is None or life.ended is not None or life.next_offset is None or offset >= life.next_offset:
            return
        if life.is_of_deleted:
            return
        done = min(life.waiting, default=life.next_offset) if self.acknowledges else offset + 1
        if user != life.user or actor.blips != life.blips:
            # the user took the message in an earlier life of the partition, or before a release that failed; or it was
            # in the hand of a thread that died, and its successor has finished it
            life.unanswered.add(done)
            self._note_own(life)
            return
        if (actor.busy or actor.suspended_at is not None) and life.done is not None:
            # a commit that is under way, or that could not be sent, has the offset that was done when it began
            life.unanswered.add(life.done)
        life.done = done
        # a message finished while the coordinator is at work, or after drain.timeout.ms, may be too late for its commit
        if not actor.busy and actor.phase in (Phase.STABLE, Phase.DRAINING):
            life.acked = life.done
        self._note_own(life)

    def _note_own(self, life):
        """Forget an unadopted offset that equals the member's own next commit: nobody can see a difference."""
        if life.unadopted in {life.done} | life.unanswered:
            life.unadopted = None

    def on_may_be_acked(self, now, name, tp, offset):
        """An acknowledgement was interrupted: it may have had its effect, and comes again later."""
        self._ack(tp, (offset,))
        life = self.lives.get((name, tp))
        if life is not None and life.next_offset is not None:
            life.unanswered.add(min(life.waiting - {offset}, default=life.next_offset))

    def on_begins(self, now, name, tp, offset):
        """The user's results give the start of a partition that a member has just claimed."""
        life = self.lives.get((name, tp))
        if life is not None:
            life.starts = {offset}
            # the member begins again after a release that failed
            life.restarts.add(offset)

    def _is_by_hand(self, tp):
        return tp.topic in self.placing.topics

    def on_sought(self, now, name, tp, offset):
        """A user seeks: the member continues there and nowhere else, and messages before need no delivery."""
        self._ack(tp, range(offset))
        life = self.lives.get((name, tp))
        if life is not None:
            life.next_offset = life.done = offset
            # the checker can no longer see whether the member had adopted another client's offset
            life.acked = life.reset = life.unadopted = None
            life.sought = offset if life.sought is None else min(life.sought, offset)
            life.restarts.clear()
            life.applied.clear()
            life.waiting.clear()

    def on_end_found(self, now, name, tp, offset):
        """Check that a member begins at a log's end only where no offset is committed, and only once."""
        life = self.lives.get((name, tp))
        if life is None or not life.may_begin_at_end or (life.is_placed and not self._may_go_to_end(name, life)):
            raise Violation("order", f"{name} would begin at the end of {tp}, {offset}, and has a place in it")
        self._ack(tp, range(offset))
        life.starts.add(offset)
        life.restarts.add(offset)
        if life.next_offset is not None:
            life.foreign.add(offset)
            self._note_adoptable(name, self.actors[name].resetting & {tp})

    def _may_go_to_end(self, name, life):
        """Return whether the member may begin at the end again: a release failed, or its offset was deleted."""
        return life.has_lost_versions or life.blips != self.actors[name].blips

    def on_placed(self, now, name, tp, offset, how):
        """The member begins at the log's end, which counts as consumed: the next owner must not begin at a later end.

        how: "asked" if the coordinator asked the brokers, "fetched" if the fetcher found it.
        """
        life = self.lives[name, tp]
        life.is_placed = True
        if life.next_offset is None:
            life.done = offset
            actor = self.actors[name]
            # an end that a fetcher finds while the coordinator is at work may be too late for its commit
            if how == "asked" or (not actor.busy and actor.phase in (Phase.STABLE, Phase.DRAINING)):
                life.acked = offset

    def on_poll_fails(self, now, name):
        self.failed_polls.add(name)

    def check_told_of_failures(self, name):
        """Check a call for messages that returned without an error: no poll of it had failed."""
        if name in self.failed_polls:
            raise Violation("not told", f"{name} does not tell its user that a poll has failed")

    def on_named(self, now, name, tp, offset, stored):
        """A user commits an offset by name: it has finished all before. stored: the offset that the member shows."""
        self._ack(tp, range(offset))
        self.named.setdefault((name, tp), set()).add(offset)
        life = self.lives.get((name, tp))
        if life is not None:
            if life.unadopted == stored:
                life.unadopted = None
            life.doubtful.add(offset)
            life.unanswered.add(offset)
            self._note_own(life)

    def handed_out(self, name):
        """Return {partition: the offset after the last message that the member handed out}, lost partitions too."""
        known = sorted((tp, life.next_offset) for (who, tp), life in self.lives.items() if who == name)
        return {tp: offset for tp, offset in known if offset is not None}

    def on_position(self, now, name, tp, position):
        """Check a position that a user asks for: it is after the last message, unless another client moved it."""
        life, actor = self.lives.get((name, tp)), self.actors[name]
        if life is None or life.ended is not None or life.next_offset is None or actor.blips != life.blips:
            return
        if life.is_of_deleted:
            return
        # None: the member adopts an operator's deletion of the offset, and no broker has told it the beginning yet
        is_adopting = position is None and life.has_lost_versions
        if not is_adopting and position not in {life.next_offset} | self._adoptable(life) | life.applied:
            raise Violation("position", f"{name} says {position} of {tp}, and has handed out up to {life.next_offset}")

    def on_paused(self, now, name, tp):
        self.paused.add((name, tp))

    def on_resumed(self, now, name, tp):
        self.paused.discard((name, tp))

    def paused_by(self, name):
        """Return the partitions that this member's users have paused."""
        return [tp for who, tp in sorted(self.paused) if who == name]

    def _ack(self, tp, offsets):
        done = self.acked.setdefault(tp, set())
        done.update(offsets)
        up_to = self.acked_up_to.get(tp, 0)
        while up_to in done:
            up_to += 1
        self.acked_up_to[tp] = up_to

    # Offsets.

    def on_operator(self, now, what, *details):
        if what == "was followed":
            self._note_followed(details[0])

    def on_stranger(self, now, path, data, *_):
        if "/requests/" in path and b'"applied"' in (data or b""):
            self.told_applied = True
            for name, actor in self.actors.items():
                self._note_adoptable(name, actor.resetting)

    def _note_followed(self, written):
        """All owners have answered that they continue from the new offsets: they hand out nothing else from now on."""
        for tp, offset in written.items():
            life = self.owners.get(tp)
            if life is None or life.actor not in self.actors or life.reset != offset or life.is_of_deleted:
                continue
            # the member need not commit any more what its users had finished before
            life.reset = life.acked = None
            life.next_offset = offset
            life.restarts.clear()
            life.applied.clear()
            life.foreign.clear()
            life.adoptable.clear()

    def on_request(self, now, partitions):
        """The request for a reset names these partitions now; none if there is no request any more."""
        self.requested = partitions
        for name, actor in self.actors.items():
            actor.resetting |= partitions
            self._note_adoptable(name, partitions)

    def note_requested(self, name, partitions):
        """Note the partitions of a member at rest that its last read request names, or that it holds."""
        self.actors[name].resetting = self.requested | partitions

    def _note_adoptable(self, name, partitions):
        for (who, tp), life in self.lives.items():
            if who == name and tp in partitions:
                life.adoptable |= life.foreign
                if self.told_applied:
                    life.applied.add(self._standing(tp))

    def _adoptable(self, life):
        """Return foreign offsets from which the member may continue; with commit.conflict=keep only of resets."""
        return life.foreign if self.settings.adopt else life.adoptable

    def on_offset(self, now, session, tp, offset):
        self._check_careful(session, f"the offset of {tp}")
        if self.is_in_kafka:
            return
        name = self.owner_of_session[session]
        if self._is_by_hand(tp):
            self._check_by_hand(name, tp, offset)
            return
        if name in self.actors:
            self._check_owner(now, name, session, tp, offset)
        life = self.owners.get(tp)
        is_owners = life is not None and life.session == session
        self._note_offset(name, tp, offset, is_owners=is_owners)

    def _check_by_hand(self, name, tp, offset):
        if name in self.actors:
            raise Violation("by hand", f"{name} commits {offset} of {tp}, whose offsets its users keep")

    def _note_offset(self, name, tp, offset, *, is_owners, may_go_back=False):
        """Note a written offset, and check it if a member wrote it.

        is_owners: the writer owns the partition. may_go_back: the write may come long after the member asked for it.
        """
        before, by = self.offsets.get(tp, (0, ""))
        self.wrote.setdefault((name, tp), set()).add(offset)
        life = self.owners.get(tp)
        # the committed offset may be a member's position in the deleted topic: then any offset of an operator counts
        is_of_deleted = life is not None and life.is_of_deleted
        if name.startswith("operator") and (offset > before or is_of_deleted):
            self._ack(tp, range(offset))
        if life is not None:
            # the offset of the member's own next commit is no reset to it: it continues after the messages in hand
            is_own = offset in ({life.done} if life.done is not None else life.starts) | life.unanswered
            life.reset = offset if name.startswith("operator ") and not is_own else None
        if name in self.actors:
            self._check_commit(name, tp, offset, before, by, is_owners=is_owners, may_go_back=may_go_back)
        if is_owners:
            life.written.add(offset)
            life.untold = None
            if self.is_in_kafka:
                life.unadopted = None
            if life.next_offset is None:
                life.starts.add(offset)
            if life.has_lost_versions and not life.has_written_since:
                # the commit succeeds over any offset: a znode created again may have the version that the member knew
                life.unadopted, life.has_written_since = None, True
        elif life is not None:
            # the writer may also be a member whose owner znode was deleted, and which does not know that
            life.foreign.add(offset)
            # with two stores, an unanswered commit may have written to ZooKeeper an offset that only Kafka had
            own = life.unanswered | life.starts if self.is_dual else life.unanswered
            is_seen = offset != life.done and offset not in own
            if self.is_in_kafka:
                # without versions, the member cannot tell a second write of the same offset from the first
                if offset != life.unadopted:
                    life.unadopted, life.untold = None, offset
            else:
                life.unadopted = offset if is_seen else None
            if name in self.actors:
                name = f"{name}, robbed"
        for zombie in self.lives.values():
            if (
                zombie is not life
                and zombie.ended is not None
                and (zombie.actor, tp) in self.lives
                and (self.lives[zombie.actor, tp] is zombie)
            ):
                zombie.foreign.add(offset)
        self.offsets[tp] = (offset, name)
        if name not in self.actors:
            self.not_from_members.add(tp)
        elif offset != before:
            self.not_from_members.discard(tp)
        for who, actor in self.actors.items():
            self._note_adoptable(who, actor.resetting & {tp})
        self.unreadable.discard(tp)
        self.deleted.discard(tp)
        if is_owners and tp in self.forbidden:
            self._note_lost_position(tp, life)
        self._note_standing(tp)

    def _note_standing(self, tp):
        """Note that the present offset is one from which members may begin, after an offset was written."""
        standing = self._standing(tp)
        for (who, owned), known in self.lives.items():
            if owned == tp and known.blips != self.actors[who].blips:
                known.restarts.add(standing)
            if owned == tp and self.is_dual and known.next_offset is None and self._is_robbed(known):
                known.starts.add(standing)
        life = self.owners.get(tp)
        if self.is_dual and life is not None and life.next_offset is None:
            # the member reads both when it begins, and takes the greater
            life.starts.add(standing)
            if standing > self.offsets.get(tp, (0, ""))[0]:
                life.unadopted = None

    # Offsets in Kafka.

    def note_answer(self, name, kind):
        """Note that ZooKeeper has answered this actor."""
        self.unheard.pop(name, None)
        self.answered_at[name] = len(self._history.events)
        # with two stores, an offset that ZooKeeper has already needs no write: the member only reads the owners
        if kind == "multi" or (self.is_dual and kind in ("multi_read", "exists")):
            if self.is_dual:
                # a large commit takes several requests
                stood = self.stood_when_checked.setdefault(name, {}) if name in self.checked_at else {}
                for tp, (offset, _) in self.offsets.items():
                    stood.setdefault(tp, set()).add(offset)
                self.stood_when_checked[name] = stood
            self.checked_at[name] = len(self._history.events)

    def note_told(self, name, told):
        """Note that Kafka's coordinator has told a member the offsets that it keeps."""
        self.answered_at[name] = len(self._history.events)
        for tp in told:
            life = self.owners.get(tp)
            if life is not None and life.actor == name and life.untold is not None:
                # the member cannot tell a later write from the same offset that it read when it began
                is_own = life.untold == life.done or life.untold in life.unanswered | life.written | life.starts
                life.unadopted, life.untold = None if is_own else life.untold, None

    def check_asked(self, name, offsets):
        """Check a member's commit to Kafka: it owned the partitions at a check in ZooKeeper for this commit."""
        if name not in self.checked_at:
            raise Violation("zombie commit", f"{name} asks for a commit, and has not had its ownership checked")
        checked_at = self.checked_at.pop(name)
        for tp in offsets:
            if self._is_by_hand(tp):
                self._check_by_hand(name, tp, offsets[tp].offset)
            life = self.lives.get((name, tp))
            is_owned = life is not None and (life.ended is None or life.ended_after > checked_at)
            if not is_owned and not self._is_robbed(life):
                raise Violation("zombie commit", f"{name} asks for a commit of {tp}, which it does not own")

    def on_kept(self, now, name, tp, offset, late):
        """Kafka's coordinator carries out a commit, which may write a smaller offset if it is late.

        So may a commit of a former owner, if the partition was lost or its offset written since a server last answered
        that member.
        """
        if self.is_dual:
            self._note_in_kafka(name, tp, offset, late)
            return
        life = self.owners.get(tp)
        is_owners = life is not None and life.actor == name
        heard = self.answered_at.get(name, 0)
        last = self.lives.get((name, tp))
        is_unheard = self.kept_at.get(tp, 0) > heard or (last is not None and last.ended_after > heard)
        may_go_back = bool(late) or (not is_owners and is_unheard)
        self._note_offset(name, tp, offset, is_owners=is_owners, may_go_back=may_go_back)
        if late:
            # the member may have begun again meanwhile, from the offset before
            self.offsets[tp] = (offset, f"{name}, late")
        self.kept_at[tp] = len(self._history.events)

    def _note_in_kafka(self, name, tp, offset, late):
        """With two stores, check that Kafka gets an offset that the member wrote to ZooKeeper, or read there.

        A late commit may write any smaller offset.
        """
        if name in self.actors:
            if offset > self.acked_up_to.get(tp, 0):
                raise Violation(
                    "committed ahead", f"{name} commits {offset} of {tp} to Kafka, which nobody is done with"
                )
            life = self.lives[name, tp]
            known = self.wrote.get((name, tp), set()) | life.starts | life.foreign | life.restarts
            if not late and offset not in known:
                raise Violation("two stores", f"{name} commits {offset} of {tp} to Kafka, and not to ZooKeeper")
        elif offset > self._standing(tp):
            self._ack(tp, range(offset))
        self.wrote_to_kafka.setdefault((name, tp), set()).add(offset)
        self.in_kafka[tp] = offset
        self._note_standing(tp)

    def on_committed(self, now, name, tp, offset):
        """A user's commit has returned, with this offset as committed: check that it was written."""
        # an operator may have written the same offset, or another one between the writes to the two stores
        life = self.lives[name, tp]
        life.doubtful.discard(offset)
        if life.is_of_deleted:
            return
        stood = {self.offsets.get(tp, (0, ""))[0], *self.stood_when_checked.get(name, {}).get(tp, ())} | life.foreign
        if life.has_lost_versions:
            # a znode that was deleted and created again may pass the check of the version that the member read
            stood |= life.starts
        is_in_first = offset in self.wrote.get((name, tp), ()) or offset in stood
        # Kafka may already have an offset that it refuses, from any client
        is_kept = offset == self.in_kafka.get(tp) or offset in self.wrote_to_kafka.get((name, tp), ())
        is_in_kafka = not self.is_dual or is_kept
        if not (is_in_first and is_in_kafka):
            raise Violation("not committed", f"{name} tells its user that {offset} of {tp} is committed")

    def on_forgotten(self, now, tp):
        """Kafka's coordinator keeps no offset any more: the next owner begins at the beginning."""
        if self.is_dual:
            self.in_kafka[tp] = 0
            self._note_standing(tp)
            return
        self._note_offset("nobody", tp, 0, is_owners=False)
        life = self.owners.get(tp)
        if life is not None:
            # a deleted offset is no reset
            life.unadopted = life.untold = None

    def on_garbled(self, now, session, tp):
        """The znode of an offset holds unreadable data: the owner's next commit overwrites it."""
        self.unreadable.add(tp)
        life = self.owners.get(tp)
        if life is not None:
            life.unadopted = life.reset = None

    def on_offset_deleted(self, now, session, tp):
        """The znode of an offset is deleted: the next owner begins at the beginning, or see begins_at_end."""
        self._check_careful(session, f"the offset of {tp}")
        if self.is_in_kafka:
            return
        for (_, owned), life in self.lives.items():
            if owned == tp and (life.ended is None or self._is_robbed(life)):
                # a znode that is created again starts with version 0 again: a commit cannot tell it from the former one
                life.has_lost_versions, life.has_written_since = True, False
        if self.begins_at_end:
            self._note_no_offset(tp)
            return
        self.on_offset(now, session, tp, 0)
        life = self.owners.get(tp)
        if life is not None:
            life.unadopted = None

    def _note_no_offset(self, tp):
        """Note that the next owner begins at the end; with commit.conflict=adopt the present owner goes there."""
        self.offsets[tp] = (0, "operator")
        self.deleted.add(tp)
        self.unreadable.discard(tp)
        for (_, owned), life in self.lives.items():
            if owned == tp:
                life.may_begin_at_end = True
        life = self.owners.get(tp)
        if life is not None:
            life.unadopted, life.reset = None, None

    def _standing(self, tp):
        """Return the committed offset; without one, None if members then begin at the end, else 0."""
        if self._is_by_hand(tp):
            return self.placing.results.get(tp, 0)
        if self.begins_at_end and (tp not in self.offsets or tp in self.deleted):
            return None
        return max(self.offsets.get(tp, (0, ""))[0], self.in_kafka.get(tp, 0), 0)

    def _check_owner(self, now, name, session, tp, offset):
        life = self.owners.get(tp)
        is_named = offset in self.named.get((name, tp), ())
        if life is None and is_named and (offset >= self.offsets.get(tp, (0, ""))[0] or tp in self.unreadable):
            # by name, users may move a partition without an owner forward
            return
        if life is None or life.session != session:
            last = self.lives.get((name, tp))
            if last is None or last.session != session or not self._is_robbed(last):
                raise Violation("zombie commit", f"{name} commits {offset} of {tp}, which it does not own")

    def _may_begin_anew(self, tp, life):
        """Return whether the member may begin at 0, because the committed offset may lie after the log's end.

        A member may have committed its position in the deleted topic for the new one, and then died.
        """
        return tp.topic in self.deletions and life.next_offset is None

    def _is_robbed(self, life):
        """Return whether the member may not know yet that another client deleted its owner znode."""
        latest = self.settings.audit_s + AUDIT_SLACK_S
        return life is not None and life.how == "stolen" and self._history.now - life.ended <= latest

    def _check_commit(self, name, tp, offset, before, by, *, is_owners, may_go_back):
        # the member may be a former owner that does not know yet that its owner znode was deleted
        own = self.lives.get((name, tp))
        if own is not None and own.is_of_deleted:
            return
        life = self.owners.get(tp)
        knows_version = is_owners and (life.has_written_since or not life.has_lost_versions)
        is_unseen = knows_version and life.unadopted not in (None, offset)
        # a member decided a late commit before it could see the other client's offset
        if self.settings.adopt and is_unseen and not may_go_back:
            raise Violation("overwritten", f"{name} commits {offset} of {tp} over {by}'s {before}, unseen")
        is_wanted = may_go_back or offset in self.named.get((name, tp), ())
        if own is not None:
            is_wanted |= (own.sought is not None and offset >= own.sought) or before in own.doubtful
            # the member knows neither that another member owns the partition nor that the offset's znode is another one
            is_wanted |= own.has_lost_versions and self._is_robbed(own)
            is_wanted |= offset == 0 and self._may_begin_anew(tp, own)
        if offset < before and by in self.actors and not is_wanted:
            raise Violation("backwards", f"{name} commits {offset} of {tp}, {by} had committed {before}")
        if offset > self.acked_up_to.get(tp, 0):
            missing = self.acked_up_to.get(tp, 0)
            raise Violation("committed ahead", f"{name} commits {offset} of {tp}, nobody is done with {missing}")

    # The end.

    def check_everything_was_delivered(self):
        for tp, end in sorted(self.ends.items()):
            missing = [n for n in range(end) if n not in self.acked.get(tp, ())]
            if missing:
                raise Violation("lost", f"{tp}: nobody got {missing[:5]} of {end}")

    def check_everything_was_left_in_order(self):
        if self.owners:
            raise Violation("left behind", f"owner znodes of {sorted(map(str, self.owners))}")
        if not self.settings.auto_commit:
            return
        for tp, end in sorted(self.ends.items()):
            committed, by = self.offsets.get(tp, (0, ""))
            is_members = (by in self.actors and tp not in self.not_from_members) or by == ""
            if committed != end and is_members and not self._is_by_hand(tp):
                raise Violation("last commit", f"{tp}: committed {committed}, all {end} were consumed")
            if self.is_dual and not self._is_by_hand(tp) and by in self.actors and self.in_kafka.get(tp, 0) != end:
                raise Violation("last commit", f"{tp}: {end} in ZooKeeper, {self.in_kafka.get(tp, 0)} in Kafka")
