"""Evens out the shares of members that subscribe to different topics, by exchanges along chains of members.

A chain: a gives b a partition of a topic that both subscribe to, b gives c another one. Only a's share and c's change,
so the division is more even if a had at least two more than c. By a theorem on semi-matchings a division that no chain
makes more even is as even as can be. Moves are counted beside it: a chain also pays if nothing but the number of
partitions away from their owners decreases.

Both are one search for a cycle of negative cost, in a graph of members, topics and one node that stands for the sizes
of the shares:

    size -> a       a's share shrinks: gains 2 * size - 1, in units of evenness
    a -> topic      a gives up a partition of the topic, if possible one that a does not own: gains a move
    topic -> b      b gets that partition: costs a move
    a -> b          a gives b a partition that b owns: gains a move
    b -> size       b's share grows: costs 2 * size + 1, in units of evenness

One unit of evenness outweighs all moves together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zk_layout.model import TopicPartition

_SIZE = ("size", "")
_Node = tuple[str, str]
_Arc = tuple[_Node, _Node, int]

_MOST_ARCS = 2_000_000
"""The most arcs to examine in one assignment, at most two seconds of work. After that the shares stay uneven."""


class Evener:
    """The state of one division. `shares` is complete after `share_out`, and stays so."""

    def __init__(
        self,
        partitions: Mapping[str, Sequence[TopicPartition]],
        subscribers: Mapping[str, Sequence[str]],
        owners: Mapping[TopicPartition, str],
    ) -> None:
        self._partitions = partitions
        # most topics have the same subscribers; these topics share one tuple, which is searched only once
        known: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._subscribers = {topic: known.setdefault(some := tuple(subscribers[topic]), some) for topic in subscribers}
        self._owners = owners
        self._members = list(dict.fromkeys(member for members in subscribers.values() for member in members))
        self._unit = 2 * sum(map(len, partitions.values())) + 1
        self._arcs_seen = 0
        # {member: {topic: its partitions}}: partitions that the member owned first, then others
        self._held: dict[str, dict[str, list[TopicPartition]]] = {member: {} for member in self._members}
        self._size = dict.fromkeys(self._members, 0)

    @property
    def shares(self) -> dict[str, list[TopicPartition]]:
        """The partitions that each member holds."""
        return {
            member: [partition for some in topics.values() for partition in some]
            for member, topics in self._held.items()
        }

    def share_out(self) -> None:
        """Let owners keep an even share; give the rest to the smallest shares, topics with few subscribers first."""
        most = -(-sum(map(len, self._partitions.values())) // len(self._members))
        waiting = []
        for topic in sorted(self._partitions, key=lambda topic: (len(self._subscribers[topic]), topic)):
            for partition in self._partitions[topic]:
                owner = self._owners.get(partition)
                if owner is None or self._size[owner] >= most:
                    waiting.append(partition)
                else:
                    self._put(owner, partition)
        for partition in waiting:
            self._put(self._smallest(partition.topic, self._owners.get(partition)), partition)

    def level(self) -> None:
        """Move partitions one by one from the largest share that can give to the smallest that can take."""
        settled = False
        while not settled:
            settled = True
            for giver in sorted(self._members, key=lambda member: -self._size[member]):
                takers = [(self._size[taker], topic, taker) for topic, taker in self._takers(giver)]
                if takers and min(takers)[0] <= self._size[giver] - 2:
                    _, topic, taker = min(takers)
                    self._put(taker, self._take(giver, topic))
                    settled = False
                    break

    def improve(self) -> None:
        """Follow cycles of negative cost until there are none."""
        while cycle := self._find_cycle():
            # all partitions of a cycle are released before any is taken, so that no member gives away a new one
            moves = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
            released: dict[_Node, TopicPartition] = {}
            for start, end in moves:
                if start[0] == "member" and end[0] == "topic":
                    released[end] = self._take(start[1], end[1])
                elif start[0] == end[0] == "member":
                    released[end] = self._take_home(start[1], end[1])
            for start, end in moves:
                if end[0] == "member" and start[0] != "size":
                    self._put(end[1], released[start if start[0] == "topic" else end])

    def _takers(self, giver: str) -> Iterator[tuple[str, str]]:
        smallest: dict[int, str] = {}
        for topic, some in self._held[giver].items():
            if some:
                members = id(self._subscribers[topic])
                if members not in smallest:
                    smallest[members] = self._smallest(topic)
                yield topic, smallest[members]

    def _smallest(self, topic: str, owner: str | None = None) -> str:
        """Return the subscriber with the smallest share; of several the owner."""
        return min(self._subscribers[topic], key=lambda member: (self._size[member], member != owner))

    def _put(self, member: str, partition: TopicPartition) -> None:
        some = self._held[member].setdefault(partition.topic, [])
        at_home = self._owners.get(partition) == member
        some.insert(0 if at_home else len(some), partition)
        self._size[member] += 1

    def _take(self, member: str, topic: str) -> TopicPartition:
        """Take the last partition of the member: one that it does not own, if it holds any."""
        self._size[member] -= 1
        return self._held[member][topic].pop()

    def _take_home(self, member: str, owner: str) -> TopicPartition:
        partition = min(partition for partition in self._strangers(member) if self._owners.get(partition) == owner)
        self._size[member] -= 1
        self._held[member][partition.topic].remove(partition)
        return partition

    def _strangers(self, member: str) -> Iterator[TopicPartition]:
        """Yield the partitions that the member holds and did not own."""
        for some in self._held[member].values():
            for partition in reversed(some):
                if self._owners.get(partition) == member:
                    break
                yield partition

    def _arcs(self) -> list[_Arc]:
        arcs: list[_Arc] = []
        for member in self._members:
            node = ("member", member)
            if self._size[member]:
                arcs.append((_SIZE, node, -self._unit * (2 * self._size[member] - 1)))
            arcs.append((node, _SIZE, self._unit * (2 * self._size[member] + 1)))
            for topic, some in self._held[member].items():
                if some:
                    arcs.append((node, ("topic", topic), 0 if self._owners.get(some[-1]) == member else -1))
            homes = {self._owners[stranger] for stranger in self._strangers(member) if stranger in self._owners}
            arcs.extend((node, ("member", home), -1) for home in sorted(homes))
        for topic, members in self._subscribers.items():
            arcs.extend((("topic", topic), ("member", member), 1) for member in members)
        return arcs

    def _find_cycle(self) -> list[_Node]:
        """Return a cycle of negative cost, in its order; empty if there is none. Bellman-Ford from all nodes."""
        arcs = self._arcs()
        cost: dict[_Node, int] = {}
        before: dict[_Node, _Node] = {}
        changed = True
        while changed and self._arcs_seen < _MOST_ARCS:
            changed = False
            self._arcs_seen += len(arcs)
            for start, end, arc_cost in arcs:
                reached = cost.get(start, 0) + arc_cost
                if reached < cost.get(end, 0):
                    cost[end] = reached
                    before[end] = start
                    changed = True
            if cycle := _cycle_in(before):
                return cycle
        return []


def _cycle_in(before: Mapping[_Node, _Node]) -> list[_Node]:
    """Return a cycle among the predecessors of a search; such a cycle has negative cost. Empty if there is none."""
    seen: set[_Node] = set()
    for begin in before:
        path: dict[_Node, None] = {}
        node = begin
        while node in before and node not in seen:
            seen.add(node)
            path[node] = None
            node = before[node]
        if node in path:
            nodes = list(path)
            return nodes[nodes.index(node) :][::-1]
    return []
