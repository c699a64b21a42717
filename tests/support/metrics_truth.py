"""Compares metrics of members and of an exporter on real servers with the messages that a test produced.

tests/simulation/metrics compares every sample exactly, because time stands still there during a scrape. Here a scrape
takes time: while a group consumes, each number has bounds, and only at rest it is exact.
"""

from __future__ import annotations

from legacy_consumer.fetching.librdkafka import open_log_offsets
from legacy_consumer.metrics import MemberCollector
from legacy_consumer.operations.metrics.catalogue import METRICS, Kind
from legacy_consumer.operations.metrics.exporter import CountedReads, CountingKazooStore, Exporter
from tests.support.metrics_pages import collected, exported

MEMBER, GROUP, PARTITION = "legacy_consumer_member_", "legacy_consumer_group_", "legacy_consumer_group_partition_"
_COUNTERS = {metric.name for metric in METRICS if metric.kind is Kind.COUNTER}


class MetricsTruth:
    """Compares the scrapes of one group.

    topic: the only topic that the group consumes. produced: {partition: number of messages}, which the test counts
    before it produces them. acknowledged: the same, counted when a broker has them.
    """

    def __init__(self, config, topic, produced, acknowledged):
        self._group, self._topic = config.group_id, topic
        self._produced, self._acknowledged = produced, acknowledged
        reads = CountedReads()
        self._store = CountingKazooStore(config.zk_settings(), reads)
        self._offsets = open_log_offsets(config, self._store)
        self.exporter = Exporter(self._store, self._offsets, reads)
        self.scrapes = 0
        self.samples = 0
        self.wrong = []
        self._last = {}

    def close(self):
        self._offsets.close()
        self._store.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __str__(self):
        return f"{self.samples} samples of {self.scrapes} scrapes compared, {len(self.wrong)} wrong"

    def figures(self):
        return {"scrapes": self.scrapes, "samples": self.samples, "wrong": self.wrong}

    def scrape(self, members, *, rests=False):
        """Compare the pages of members and exporter. rests: the members have consumed all, and nothing is produced."""
        low = dict(self._acknowledged)
        self.exporter.refresh()
        # a new collector for each scrape, so that it takes a new sample of lags
        pages = [exported(self.exporter), *(collected(MemberCollector([member])) for member in members)]
        high = dict(self._produced)
        self.scrapes += 1
        self.samples += sum(map(len, pages))
        of_exporter, *of_members = pages
        self._check_exported(of_exporter, low, high)
        owned = 0
        for member, page in zip(members, of_members, strict=True):
            self._check_member(member.consumer_id, page, low, high)
            told = page.get(_key(f"{MEMBER}owned_partitions", self._who(member), topic=self._topic), 0)
            # members make their pages one after the other: only partitions that are still owned now count
            owned += min(told, len(member.status.owned) if member.vitals.leased else 0)
        self._expect("partitions that members say they own", owned, 0, len(high))
        for instance, page in enumerate(pages):
            self._check_counters(instance and members[instance - 1].consumer_id, page)
        if rests:
            self._check_rest(of_exporter, members, of_members, high)

    def _check_exported(self, page, low, high):
        sums = 0
        for partition in high:
            where = {"topic": self._topic, "partition": str(partition)}
            end = page.get(_key("legacy_consumer_topic_log_end_offset", where))
            committed = page.get(_key(f"{PARTITION}committed_offset", where, group=self._group))
            lag = page.get(_key(f"{PARTITION}lag", where, group=self._group))
            if end is not None:
                self._expect(f"exported log end of {partition}", end, low[partition], high[partition])
            if committed is not None:
                self._expect(f"exported commit of {partition}", committed, 0, high[partition])
            if lag is not None:
                self._expect(f"exported lag of {partition}", lag, end - (committed or 0), end - (committed or 0))
            sums = None if lag is None or sums is None else sums + lag
        if sums is not None and _key(f"{GROUP}members", group=self._group) in page:
            self._expect("exported lag of the group", page.get(_key(f"{GROUP}lag", group=self._group)), sums, sums)

    def _check_member(self, consumer_id, page, low, high):
        for (name, labels), value in page.items():
            partition = int(dict(labels).get("partition", -1))
            if name == f"{MEMBER}consumed_offset":
                self._expect(f"{consumer_id}: consumed of {partition}", value, 0, high[partition])
            elif name == f"{MEMBER}log_end_offset":
                self._expect(f"{consumer_id}: log end of {partition}", value, 0, high[partition])
            elif name == f"{MEMBER}lag":
                end = page.get((f"{MEMBER}log_end_offset", labels), -1)
                self._expect(f"{consumer_id}: lag of {partition}", value, 0, end)

    def _check_counters(self, instance, page):
        for key, value in page.items():
            if key[0] in _COUNTERS:
                self._expect(f"{instance}: {key}", value, self._last.get((instance, key), 0), float("inf"))
                self._last[instance, key] = value

    def _check_rest(self, of_exporter, members, pages, high):
        group = {"group": self._group}
        for name, value in (
            ("members", len(members)),
            ("unreadable_members", 0),
            ("unowned_partitions", 0),
            ("lag", 0),
        ):
            self._expect(f"exported {name}", of_exporter.get(_key(f"{GROUP}{name}", group)), value, value)
        ok = of_exporter.get(_key(f"{GROUP}verdict", group, verdict="ok"))
        self._expect("exported verdict ok", ok, 1, 1)
        self._expect("exported partitions", of_exporter.get(_key(f"{GROUP}partitions", group)), len(high), len(high))
        for partition, many in high.items():
            where = {"topic": self._topic, "partition": str(partition)}
            committed = of_exporter.get(_key(f"{PARTITION}committed_offset", group, **where))
            self._expect(f"exported commit of {partition} at rest", committed, many, many)
            for name, value in (
                ("consumed_offset", many),
                ("committed_offset", many),
                ("log_end_offset", many),
                ("lag", 0),
            ):
                said = [
                    page[key]
                    for member, page in zip(members, pages, strict=True)
                    if (key := _key(f"{MEMBER}{name}", self._who(member), **where)) in page
                ]
                if said != [value]:
                    self.wrong.append(f"{name} of {partition} at rest: members say {said}, and it is {value}")

    def _who(self, member):
        return {"group": self._group, "consumer_id": member.consumer_id}

    def _expect(self, what, value, low, high):
        if value is None or not low <= value <= high:
            self.wrong.append(f"scrape {self.scrapes}: {what} is {value}, and should be {low} to {high}")


def _key(name, labels=(), **more):
    return name, tuple(sorted({**dict(labels), **more}.items()))
