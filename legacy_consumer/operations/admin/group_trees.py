"""All znodes under a group's folder, read once. Commands judge, back up and delete what this one reading found."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdsPath, GroupPath, OffsetPath, TopicOffsetsPath, TopicOwnersPath
from zk_layout.store import Stat, ZkStore, Znode


@dataclass(frozen=True, slots=True)
class GroupTree:
    """One group. stats: {path: its Stat} of the folder and all znodes below except the registrations, parents first.

    offsets: the offset znodes. record: the record of its migration; None if no migration was begun.
    """

    group: str
    stats: Mapping[str, Stat]
    offsets: Mapping[TopicPartition, Znode]
    record: Znode | None

    @property
    def members(self) -> int:
        """The number of registered members, readable or not."""
        ids = self.stats.get(ConsumerIdsPath(self.group).path)
        return 0 if ids is None else ids.num_children

    def below(self, topic: str | None) -> dict[str, Stat]:
        """Return the znodes that are deleted with the group, or with one topic of it: parents first, without `ids`."""
        ids = ConsumerIdsPath(self.group).path
        if topic is None:
            return {path: stat for path, stat in self.stats.items() if path != ids}
        roots = [TopicOwnersPath(self.group, topic).path, TopicOffsetsPath(self.group, topic).path]
        return {
            path: stat
            for path, stat in self.stats.items()
            if any(path == root or path.startswith(f"{root}/") for root in roots)
        }

    def held(self, topic: str | None) -> tuple[str, ...]:
        """Return the paths of below(topic) that a session holds."""
        return tuple(path for path, stat in self.below(topic).items() if stat.ephemeral_owner)


def read_trees(store: ZkStore, groups: Sequence[str]) -> list[GroupTree]:
    """Return the trees of these groups, in few requests, without groups that do not exist. Raises: ZooKeeperError."""
    names = list(dict.fromkeys(groups))
    registrations = {ConsumerIdsPath(group).path for group in names}
    stats = dict(_walk(store, [GroupPath(group).path for group in names], registrations))
    offsets = {path: found for path in stats if (found := OffsetPath.parse(path)) is not None}
    records = {record_path(group): group for group in names if record_path(group) in stats}
    wanted = [*offsets, *records]
    znodes = {path: znode for path, znode in zip(wanted, store.get_data_many(wanted), strict=True) if znode is not None}
    stats.update((path, znode.stat) for path, znode in znodes.items())
    by_group: dict[str, dict[str, Stat]] = {}
    for path, stat in stats.items():
        by_group.setdefault(path.split("/", 3)[2], {})[path] = stat
    committed: dict[str, dict[TopicPartition, Znode]] = {}
    for path, found in offsets.items():
        if path in znodes:
            committed.setdefault(found.group, {})[TopicPartition(found.topic, found.partition)] = znodes[path]
    return [
        GroupTree(group, by_group[group], committed.get(group, {}), znodes.get(record_path(group)))
        for group in names
        if group in by_group
    ]


def record_path(group: str) -> str:
    """Return the path of the record of a group's migration."""
    return f"{GroupPath(group).path}/migration"


def _walk(store: ZkStore, level: Sequence[str], closed: Collection[str]) -> Iterator[tuple[str, Stat]]:
    """Yield the znodes level by level; leave out znodes below the paths in `closed`."""
    while level:
        found = [(path, s) for path, s in zip(level, store.exists_many(level), strict=True) if s is not None]
        yield from found
        parents = [path for path, stat in found if stat.num_children and path not in closed]
        children = store.get_children_many(parents) if parents else []
        level = [f"{path}/{name}" for path, names in zip(parents, children, strict=True) for name in names or ()]
