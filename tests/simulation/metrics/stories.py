"""The events of scenes, drawn from a seed."""

from __future__ import annotations

import contextlib
import random

from legacy_consumer.errors import NotAssignedError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from tests.simulation.metrics.brokers import BROKERS
from tests.simulation.metrics.comparison import Comparison, WrongMetricError
from tests.simulation.metrics.scene import Scene

EVENTS = 25


class NotNowError(Exception):
    """No member or broker is in a state in which this event could happen."""


class RandomStory:
    """A scene of a few members in which any event may happen. seed: it decides all of them."""

    def __init__(self, seed, judges):
        self.rng = rng = random.Random(seed)
        self.told = []
        self.scene = scene = Scene(
            {f"t{n}": rng.choice((1, 3, 4, 6)) for n in range(rng.choice((1, 2)))},
            judges=judges,
            rate=rng.choice((0.5, 3.0, 20.0)),
            refresh_s=rng.choice((5.0, 30.0, 60.0)),
            auto_commit_interval_ms=rng.choice((1000, 10_000, 60_000)),
            group_coordination=rng.choice(("classic", "classic", "leader")),
        )
        self.scrape_every = rng.choice((5.0, 15.0, 30.0, 60.0))
        for _ in range(rng.randint(1, 4)):
            scene.join()

    def run(self):
        """Run the events. Raises: WrongMetricError; `told` then holds the events that led to it."""
        try:
            for _ in range(EVENTS):
                self._pass(self.rng.choice((1, 3, 20, 45, 90)))
                event = self.rng.choice(_EVENTS)
                with contextlib.suppress(NotNowError):
                    event(self.scene, self.rng)
                    self.told.append(f"{self.scene.clock.now:.0f} s: {event.__name__}")
            heal_all(self.scene)
            self._pass(200)
        finally:
            self.scene.end()

    def _pass(self, seconds):
        self.scene.run(seconds, step=self.rng.choice((0.5, 1.0, 2.5)), scrape_every=self.scrape_every)


def heal_all(scene):
    """Bring back everything that is cut, frozen or dead."""
    for member in scene.members:
        if member.is_frozen:
            scene.thaw(member)
        member.client.is_cut = member.is_stuck = False
    scene.thaw_zookeeper()
    scene.exporter_client.is_cut = scene.exporter_store.is_forbidden = False
    scene.brokers.dead.clear()
    scene.brokers.frozen.clear()


def _one(scene, rng, *, linked=True):
    """Choose a member for an event."""
    found = [m for m in scene.members if not m.is_frozen and m.store.linked is linked]
    if not found:
        raise NotNowError
    return rng.choice(found)


def a_member_joins(scene, rng):
    if len(scene.members) > 5 or not scene.topics or not scene.admin.linked or scene.zookeeper_is_frozen:
        raise NotNowError
    topics = sorted(scene.topics)
    scene.join(topics[: rng.randint(1, len(topics))], rate=rng.choice((1, 30, 1000)))


def a_member_leaves(scene, rng):
    member = _one(scene, rng)
    scene.leave(member)


def a_member_is_killed(scene, rng):
    member = _one(scene, rng)
    scene.kill(member)


def a_member_is_cut_from_zookeeper(scene, rng):
    member = _one(scene, rng)
    scene.cut_from_zookeeper(member.store)


def a_member_hears_from_zookeeper_again(scene, rng):
    if scene.zookeeper_is_frozen:
        raise NotNowError
    scene.heal(_one(scene, rng, linked=False).store)


def a_member_is_cut_from_the_brokers_or_not(scene, rng):
    member = _one(scene, rng)
    member.client.is_cut = not member.client.is_cut


def a_user_is_stuck_or_not(scene, rng):
    member = _one(scene, rng)
    member.is_stuck = not member.is_stuck


def a_process_stands_still_or_goes_on(scene, rng):
    frozen = [member for member in scene.members if member.is_frozen]
    if frozen:
        scene.thaw(frozen[0])
    else:
        scene.freeze(_one(scene, rng))


def the_exporter_is_cut_from_zookeeper_or_not(scene, rng):
    if scene.zookeeper_is_frozen or not scene.exporter_store.server_session_id:
        raise NotNowError
    store = scene.exporter_store
    if store.linked:
        scene.cut_from_zookeeper(store)
    else:
        scene.heal(store)


def the_exporter_is_cut_from_the_brokers_or_not(scene, rng):
    scene.exporter_client.is_cut = not scene.exporter_client.is_cut


def zookeeper_stands_still_or_goes_on(scene, rng):
    if scene.zookeeper_is_frozen:
        scene.thaw_zookeeper()
    elif any(not m.store.linked or m.is_frozen for m in scene.members) or not scene.exporter_store.linked:
        raise NotNowError
    else:
        scene.freeze_zookeeper()


def a_broker_dies_or_comes_back(scene, rng):
    scene.brokers.dead ^= {rng.randrange(BROKERS)}


def all_brokers_stand_still_or_go_on(scene, rng):
    scene.brokers.frozen = set() if scene.brokers.frozen else set(range(BROKERS))


def a_topic_is_deleted(scene, rng):
    if len(scene.topics) < 2:
        raise NotNowError
    scene.delete_topic(rng.choice(sorted(scene.topics)))


def a_topic_is_made(scene, rng):
    missing = sorted({"t0", "t1"} - scene.topics.keys())
    if not missing:
        raise NotNowError
    scene.create_topic(missing[0], rng.choice((1, 3)))


def retention_cuts_a_log(scene, rng):
    tp = rng.choice(sorted(scene.brokers.ends))
    scene.trim(tp, rng.choice((0.5, 1.0)))


def another_client_writes_an_offset(scene, rng):
    found = [tp for tp in sorted(scene.offsets) if tp in scene.brokers.ends]
    if not found:
        raise NotNowError
    tp = rng.choice(found)
    scene.commit_by_hand(tp, rng.randint(0, scene.brokers.ends[tp] + 5))


def somebody_registers_what_nobody_can_read(scene, rng):
    path = "/consumers/g/ids/g_odd"
    if scene.admin.exists("/consumers/g/ids") is None:
        raise NotNowError
    if scene.admin.exists(path) is None:
        scene.admin.create(path, b"{odd")
    else:
        scene.admin.delete(path)


def a_user_seeks(scene, rng):
    member = _one(scene, rng)
    found = sorted(member.lives.keys() & scene.brokers.ends.keys())
    if not found:
        raise NotNowError
    tp = rng.choice(found)
    where = (EARLIEST, LATEST, rng.randint(0, scene.brokers.ends[tp] + 50))
    with _not_assigned_any_more():
        member.seek(tp, rng.choice(where))


def a_user_pauses_or_resumes(scene, rng):
    member = _one(scene, rng)
    with _not_assigned_any_more():
        if paused := member.connector.paused():
            member.connector.resume(paused)
        elif owned := sorted(member.lives):
            member.connector.pause(rng.sample(owned, rng.randint(1, len(owned))))
        else:
            raise NotNowError


@contextlib.contextmanager
def _not_assigned_any_more():
    try:
        yield
    except NotAssignedError:
        raise NotNowError from None


def an_acl_forbids_the_group_to_the_exporter_or_not(scene, rng):
    scene.exporter_store.is_forbidden = not scene.exporter_store.is_forbidden


_EVENTS = [
    a_broker_dies_or_comes_back,
    a_member_hears_from_zookeeper_again,
    a_member_is_cut_from_the_brokers_or_not,
    a_member_is_cut_from_zookeeper,
    a_member_is_killed,
    a_member_joins,
    a_member_leaves,
    a_process_stands_still_or_goes_on,
    a_topic_is_deleted,
    a_topic_is_made,
    a_user_is_stuck_or_not,
    a_user_pauses_or_resumes,
    a_user_seeks,
    all_brokers_stand_still_or_go_on,
    an_acl_forbids_the_group_to_the_exporter_or_not,
    another_client_writes_an_offset,
    retention_cuts_a_log,
    somebody_registers_what_nobody_can_read,
    the_exporter_is_cut_from_the_brokers_or_not,
    the_exporter_is_cut_from_zookeeper_or_not,
    zookeeper_stands_still_or_goes_on,
]


def run_story(seed):
    """Run the story of a seed. Returns: {metric: number of compared samples}. Raises: WrongMetricError."""
    comparison = Comparison()
    story = RandomStory(seed, [comparison])
    try:
        story.run()
    except WrongMetricError as error:
        told = "\n".join(story.told)
        raise WrongMetricError(f"seed {seed}:\n{told}\n{error}") from None
    return comparison.compared
