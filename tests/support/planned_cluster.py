"""A cluster in memory for the planner of Spark's message batches: ZooKeeper, logs, and a fake clock."""

import json

from spark_source.messages.cluster import Cluster
from spark_source.messages.options import parse_message_options
from spark_source.messages.stream_driver import StreamDriver
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition


class Brokers:
    """Logs of (begin, end), and a clock that a wait moves at once. later: {time: function to call then}."""

    def __init__(self):
        self.logs = {}
        self.open_from = {}
        self.now = 0.0
        self.later = {}
        self.questions = 0

    def monotonic(self):
        return self.now

    def wait(self, event, timeout_s):
        self.now += timeout_s
        for at in [at for at in self.later if at <= self.now]:
            self.later.pop(at)()
        return False

    def earliest(self, partitions):
        return {tp: self.logs[tp][0] for tp in partitions if tp in self.logs}

    def latest(self, partitions):
        return {tp: self.logs[tp][1] for tp in partitions if tp in self.logs}

    def at_times(self, times):
        self.questions += 1
        return {tp: None if time_ms > 500 else 3 for tp, time_ms in times.items()}

    def close(self):
        pass


class Committed(Brokers):
    """The same logs for a read_committed reader. open_from: {partition: first offset of an open transaction}."""

    def __init__(self, brokers):
        self.logs, self.open_from = brokers.logs, brokers.open_from

    def latest(self, partitions):
        return {tp: min(end, self.open_from.get(tp, end)) for tp, end in super().latest(partitions).items()}


class Reachable(Cluster):
    def check_access(self):
        pass


class Scene:
    def __init__(self):
        self.server = MemoryZooKeeper()
        self.operator = MemoryStore(self.server)
        self.operator.start()
        for path in ("/brokers/ids", "/brokers/topics", "/consumers"):
            self.operator.ensure_path(path)
        self.brokers = Brokers()

    def topic(self, name, *logs):
        document = {"version": 1, "partitions": {str(n): [0] for n in range(len(logs))}}
        self.operator.create(f"/brokers/topics/{name}", json.dumps(document).encode())
        self.brokers.logs.update({TopicPartition(name, n): log for n, log in enumerate(logs)})

    def register_broker(self, version, number=0):
        document = {"version": version, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "1"}
        document["endpoints"] = ["PLAINTEXT://h:9092"]
        self.operator.create(f"/brokers/ids/{number}", json.dumps(document).encode())

    def delete(self, name):
        self.operator.delete(f"/brokers/topics/{name}")
        for tp in [tp for tp in self.brokers.logs if tp.topic == name]:
            del self.brokers.logs[tp]

    def commit(self, tp, offset):
        self.operator.create(f"/consumers/g/offsets/{tp.topic}/{tp.partition}", b"%d" % offset, make_parents=True)

    def committed(self, tp):
        path = f"/consumers/g/offsets/{tp.topic}/{tp.partition}"
        return int(self.operator.get_data(path).data) if self.operator.exists(path) else None

    def driver(self, topics="t", **options):
        chosen = {} if topics is None else {"topics": topics}
        parsed = parse_message_options({"zookeeper.connect": "m:1", "group.id": "g", **chosen, **options})
        self.store = MemoryStore(self.server)
        driver = StreamDriver(parsed, self.cluster(parsed, self.store))
        driver.open()
        return driver

    def cluster(self, options, store):
        by_isolation = Committed(self.brokers) if options.config.isolation_level == "read_committed" else self.brokers
        return Reachable(options, store, by_isolation, self.brokers, high_watermarks=self.brokers)
