"""An assignor that sends user data from each member to the leader's assignor, and back to the member with its share.

A member of a chaos run must get back data that it has sent; other data is an error, which the member records.
"""

from __future__ import annotations

import json
import os

from rebalance.assignors.kafka_range import RangeAssignor
from rebalance.assignors.seam import AssignorProperty, MemberAssignment, RebalanceProtocol

BY = AssignorProperty("assignment.telling.by", "", "which member tells")
LENGTH = 2000
"""The number of random bytes that a member sends each time."""


class Telling(RangeAssignor):
    """Divides as range does, and says that it supports the cooperative protocol."""

    name = "telling"
    properties = (BY,)
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    wrong = None
    """Called with a text for each error."""

    def __init__(self):
        self._by = ""
        self._told = set()

    def configure(self, properties):
        self._by = properties[BY.name]

    def subscription_user_data(self, topics):
        told = os.urandom(LENGTH).hex()
        self._told.add(told)
        return json.dumps({"by": self._by, "told": told, "topics": list(topics)}).encode()

    def assign(self, cluster, subscriptions):
        found = {}
        for member, share in super().assign(cluster, subscriptions).items():
            data = json.loads(subscriptions[member].user_data)
            if data["by"] not in member or tuple(data["topics"]) != subscriptions[member].topics:
                self._complain(f"{member} tells {data['topics']} in the name of {data['by']}")
            found[member] = MemberAssignment(share.partitions, json.dumps(data).encode())
        return found

    def on_assignment(self, assignment, generation):
        try:
            back = json.loads(assignment.user_data)
        except ValueError:
            self._complain(f"generation {generation} brings back {assignment.user_data[:50]!r}")
            return
        if back["by"] != self._by or back["told"] not in self._told:
            self._complain(f"generation {generation} brings back what {back['by']} told")

    def _complain(self, text):
        if Telling.wrong is not None:
            Telling.wrong(f"user data of {self._by}: {text}")
