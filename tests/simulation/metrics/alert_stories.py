"""For each alert a story in which it must fire; and stories of healthy groups, in which none may fire."""

from __future__ import annotations

from legacy_consumer.member.resets import Request, RequestState, answers_path, encode_request, request_path
from tests.simulation.metrics.scene import Scene
from tests.simulation.zookeeper import IDS, OFFSETS, OWNERS
from zk_layout.model import TopicPartition

EVERY_S = 30.0
TP = TopicPartition("t", 0)


def healthy(judges):
    """Twelve members: six start, six join, each is restarted; ZooKeeper, the network and the brokers fail for 15 s."""
    scene = _scene(judges, members=6, partitions=24)
    _pass(scene, 10)
    for _ in range(6):
        scene.join()
        _pass(scene, 1)
    _pass(scene, 10)
    for member in list(scene.members):
        scene.leave(member)
        scene.run(15, step=5, scrape_every=EVERY_S)
        scene.join(name=member.name)
        scene.run(15, step=5, scrape_every=EVERY_S)
    _pass(scene, 10)
    scene.freeze_zookeeper()
    scene.run(15, step=2.5, scrape_every=EVERY_S)
    scene.thaw_zookeeper()
    _pass(scene, 10)
    # long enough for all sessions to end
    for member in scene.members:
        scene.cut_from_zookeeper(member.store)
    scene.run(15, step=2.5, scrape_every=EVERY_S)
    for member in scene.members:
        scene.heal(member.store)
    _pass(scene, 10)
    scene.brokers.dead |= {0, 1, 2}
    scene.run(15, step=2.5, scrape_every=EVERY_S)
    scene.brokers.dead.clear()
    return _pass(scene, 15)


def caught_up(commits_every_s):
    """A member keeps up while producers write more and more; its commits drift against the exporter's refreshes."""

    def story(judges):
        scene = Scene({"t": 3}, judges=judges, rate=3.0, auto_commit_interval_ms=commits_every_s * 1000)
        scene.join()
        for _ in range(90):
            scene.run(60, scrape_every=EVERY_S)
            scene.rate *= 1.01
        return scene

    return story


def nobody_is_there(judges):
    scene = _scene(judges)
    for member in list(scene.members):
        scene.kill(member)
    return _pass(scene, 15)


def a_member_leaves_for_good(judges):
    scene = _scene(judges, members=3)
    scene.kill(scene.members[0])
    return _pass(scene, 15)


def a_user_is_stuck(judges):
    scene = _scene(judges)
    scene.members[0].is_stuck = True
    return _pass(scene, 15)


def a_member_crashes_over_a_message(committed):
    """For half an hour, each restart is another member, which ends before it commits."""

    def story(judges):
        scene = _scene(judges, members=int(committed))
        for member in list(scene.members):
            scene.kill(member)
        for _ in range(20):
            member = scene.join()
            member.is_stuck = True
            scene.run(50, step=5, scrape_every=EVERY_S)
            scene.kill(member)
            scene.run(40, step=5, scrape_every=EVERY_S)
        return scene

    story.__name__ = f"a_member_crashes_over_{'a' if committed else 'the_first'}_message"
    return story


def a_member_is_too_slow(judges):
    scene = _scene(judges, members=1)
    scene.members[0].rate = 1
    return _pass(scene, 45)


def an_operator_goes_back(judges):
    scene = _scene(judges, members=1, commit_conflict="adopt")
    for _ in range(5):
        scene.commit_by_hand(TP, 5)
        _pass(scene, 2)
    return scene


def an_offset_lies_beyond_the_log(judges):
    scene = _scene(judges)
    for member in list(scene.members):
        scene.leave(member)
    scene.commit_by_hand(TP, 10**6)
    return _pass(scene, 10)


def a_broker_is_dead(judges):
    scene = _scene(judges)
    scene.brokers.dead.add(0)
    return _pass(scene, 20)


def a_foreign_member_claims_nothing(judges):
    scene = _scene(judges)
    data = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
    scene.subscribed["g_foreign"] = frozenset({"t"})
    scene.admin.create(f"{IDS}/g_foreign", data)
    return _pass(scene, 10)


def a_registration_is_broken(judges):
    scene = _scene(judges)
    scene.admin.create(f"{IDS}/g_broken", b"{")
    return _pass(scene, 5)


def the_exporter_may_not_read_the_group(judges):
    scene = _scene(judges)
    scene.exporter_store.is_forbidden = True
    return _pass(scene, 10)


def the_exporter_is_cut_from_the_brokers(judges):
    scene = _scene(judges)
    scene.exporter_client.is_cut = True
    return _pass(scene, 10)


def the_exporter_is_cut_from_zookeeper(judges):
    scene = _scene(judges)
    scene.cut_from_zookeeper(scene.exporter_store)
    return _pass(scene, 10)


def the_exporter_is_gone(judges):
    scene = _scene(judges)
    scene.is_exporter_up = False
    return _pass(scene, 10)


def a_coordinator_is_stuck(judges):
    scene = _scene(judges)
    scene.members[0].coordinator.stuck_since = scene.clock.now
    return _pass(scene, 6)


def a_foreign_owner_never_goes(judges):
    scene = _scene(judges, members=0)
    scene.admin.create(f"{OWNERS}/t/0", b"g_gone-0", make_parents=True)
    scene.join().troubles = 1000
    return _pass(scene, 15)


def a_member_comes_and_goes(judges):
    scene = _scene(judges)
    for _ in range(50):
        member = scene.join(name="restless")
        scene.run(30, step=5, scrape_every=EVERY_S)
        scene.kill(member)
        scene.run(30, step=5, scrape_every=EVERY_S)
    return scene


def a_member_is_cut_off(judges):
    scene = _scene(judges)
    scene.cut_from_zookeeper(scene.members[0].store)
    return _pass(scene, 5)


def a_reset_does_not_end(judges):
    scene = _scene(judges, members=1)
    scene.admin.ensure_path(answers_path("g"))
    request = Request("4711", RequestState.PREPARE, frozenset({TP}))
    scene.admin.create(request_path("g"), encode_request(request), ephemeral=True)
    scene.held_by_id = {scene.members[0].id: 1}
    return _pass(scene, 4)


def offsets_may_not_be_written(judges):
    scene = _scene(judges)
    sessions = {member.store.server_session_id for member in scene.members}
    scene.zookeeper.tree.is_member = sessions.__contains__
    scene.zookeeper.tree.forbidden.update(f"{OFFSETS}/t/{n}" for n in range(6))
    for member in scene.members:
        member.troubles = 1000
    return _pass(scene, 25)


def sessions_expire(judges):
    scene = _scene(judges)
    for _ in range(3):
        scene.cut_from_zookeeper(scene.members[0].store)
        scene.run(20, step=5, scrape_every=EVERY_S)
        scene.heal(scene.members[0].store)
        _pass(scene, 5)
    return scene


def another_client_commits(judges):
    scene = _scene(judges)
    for offset in range(5):
        scene.commit_by_hand(TP, offset)
        _pass(scene, 2)
    return scene


FIRES_IN = {
    "ConsumerGroupStopped": nobody_is_there,
    "ConsumerGroupStalled": a_user_is_stuck,
    "ConsumerGroupDoesNotMove": a_member_crashes_over_a_message(committed=True),
    "ConsumerGroupFallsBehind": a_member_is_too_slow,
    "ConsumerGroupOffsetWentBack": an_operator_goes_back,
    "ConsumerGroupOffsetWrong": an_offset_lies_beyond_the_log,
    "ConsumerGroupLagUnknown": a_broker_is_dead,
    "ConsumerGroupLogEndsMissing": a_broker_is_dead,
    "ConsumerGroupPartitionsUnowned": a_foreign_member_claims_nothing,
    "ConsumerGroupForbidden": the_exporter_may_not_read_the_group,
    "ConsumerGroupUnreadableMember": a_registration_is_broken,
    "ConsumerGroupLostAllMembers": nobody_is_there,
    "ConsumerGroupLostMember": a_member_leaves_for_good,
    "ConsumerGroupExporterBlind": the_exporter_is_cut_from_the_brokers,
    "ConsumerGroupDataOld": the_exporter_is_cut_from_zookeeper,
    "ConsumerGroupExporterGone": the_exporter_is_gone,
    "ConsumerMemberNotAlive": a_coordinator_is_stuck,
    "ConsumerMemberDegraded": a_foreign_owner_never_goes,
    "ConsumerMemberRebalancesAllTheTime": a_member_comes_and_goes,
    "ConsumerMemberCutOff": a_member_is_cut_off,
    "ConsumerMemberStuck": a_user_is_stuck,
    "ConsumerMemberHeld": a_reset_does_not_end,
    "ConsumerMemberCommitsFail": offsets_may_not_be_written,
    "ConsumerMemberSessionsExpire": sessions_expire,
    "ConsumerMemberForeignCommits": another_client_commits,
}
"""{alert: the story in which it must fire}."""


def _scene(judges, *, members=2, partitions=6, **properties):
    """Let five minutes of a healthy group pass."""
    scene = Scene({"t": partitions}, judges=judges, **properties)
    for _ in range(members):
        scene.join()
    return _pass(scene, 5)


def _pass(scene, minutes):
    return scene.run(minutes * 60, step=5, scrape_every=EVERY_S)
