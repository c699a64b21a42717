"""The requests that one more member costs each member of a led group; without threads and real time."""

from collections import Counter

import pytest

from rebalance.led.records import generation_path, leader_path, member_path, round_path
from tests.support.group_members import GROUP, Group, Member
from zk_layout.paths import ConsumerIdPath

SIZES = (4, 16, 64)
GENERATIONS = {"range": 1, "cooperative-sticky": 2}
"""{strategy: generations after a member joins}. A cooperative newcomer gets what others release in the second."""


class Led:
    """A settled led group; counts its members' reads and writes from then on."""

    def __init__(self, strategy, size):
        self.group = Group({"t": 2 * (size + 1)})
        self.strategy = strategy
        for number in range(size):
            self.group.join(f"m{number:02}", {"t": 1}, led=strategy)
        self.settle()
        # members watch their owner znodes once they have been settled for a second
        self.group.pass_time(1.5)
        self.members = list(self.group.members)
        self.kinds = {member: Counter() for member in self.members}
        self.read = {member: Counter() for member in self.members}
        by_session = {member.store.session_id: member for member in self.members}
        self.group.server.fault = lambda session_id, kind: (
            self.kinds[by_session[session_id]].update([kind]) if session_id in by_session else None
        )
        for member in self.members:
            self._note_reads(member)

    def settle(self):
        self.group.settle()
        self.group.pass_time(0.25)

    def _note_reads(self, member):
        read, noted = member.store.get_data_many, self.read[member]

        def noting(paths, watcher=None):
            noted.update(paths)
            return read(paths, watcher)

        member.store.get_data_many = noting

    @property
    def leader(self):
        name = self.group.admin.get_data(leader_path(GROUP)).data.decode()
        return next(member for member in self.members if member.consumer_id == name)


@pytest.fixture(scope="module", params=GENERATIONS)
def changes(request):
    """Return a group of each size, to which one more member has joined."""
    groups = []
    for size in SIZES:
        led = Led(request.param, size)
        led.group.join("zz", {"t": 1}, led=request.param)
        led.settle()
        assert [len(member.owned) for member in led.group.members] == [2] * (size + 1)
        groups.append(led)
    return groups


def test_a_member_writes_its_znode_once_and_reads_round_and_generation_once_in_a_group_of_any_size(changes):
    for led in changes:
        times = GENERATIONS[led.strategy]
        for member in led.members:
            mine = led.read[member]
            if member is not led.leader:
                assert {path: count for path, count in mine.items() if "/coordination/" in path} == {
                    round_path(GROUP): times,
                    generation_path(GROUP): times,
                }
            assert led.kinds[member]["set_data"] == times, "its own znode"


def test_the_cost_of_a_change_for_a_member_does_not_grow_with_the_group(changes):
    def dearest(led):
        """Return, for each kind of request, the most that any member but the leader made."""
        most = Counter()
        for member in led.members:
            if member is not led.leader:
                most |= led.kinds[member]
        return most

    small, middle, large = map(dearest, changes)
    assert small == middle == large
    assert large["get_children"] == 1, "the list of registrations"


def test_a_leader_reads_what_each_member_has_written_once(changes):
    for led in changes:
        read = led.read[led.leader]
        for member in led.group.members:
            assert read[member_path(GROUP, member.consumer_id)] <= 2 * GENERATIONS[led.strategy]
        assert led.kinds[led.leader]["get_children"] <= 2, "the registrations, and the members"


def test_a_member_reads_no_watched_owner_znode_before_it_releases_it(changes):
    for led in changes:
        for member in led.members:
            assert not [path for path in led.read[member] if "/owners/" in path]


def test_a_leader_does_not_read_where_partitions_are_for_an_assignor_that_looks_at_their_numbers_alone(changes):
    for led in changes:
        assert not [path for path in led.read[led.leader] if path.startswith("/brokers/") and path.endswith("/state")]


def test_a_newcomer_reads_a_led_group_in_one_request_and_joins_in_one_write():
    led = Led("range", 4)
    newcomer = Member(led.group.server, "zz", {"t": 1}, led.group.clock, led="range")
    told = member_path(GROUP, newcomer.consumer_id)
    reads, creates = [], []
    read, create = newcomer.store.get_data_many, newcomer.store.create
    newcomer.store.get_data_many = lambda paths, watcher=None: (reads.append(list(paths)), read(paths, watcher))[1]
    newcomer.store.create = lambda path, *args, **options: (creates.append(path), create(path, *args, **options))[1]
    newcomer.store.ensure_path = None
    newcomer.join()
    while newcomer.coordinator.turn() == 0:
        pass
    stands = [generation_path(GROUP), round_path(GROUP), leader_path(GROUP), told]
    assert [paths for paths in reads if any("/coordination/" in path for path in paths)] == [stands]
    assert creates == [ConsumerIdPath(GROUP, newcomer.consumer_id).path, told]


def test_a_led_group_at_rest_asks_nothing_but_whether_its_owner_znodes_stand():
    led = Led("cooperative-sticky", 4)
    led.group.pass_time(30)
    for member in led.members:
        assert not [path for path in led.read[member] if "/coordination/" in path]
        assert not led.kinds[member]["set_data"] + led.kinds[member]["create"]
