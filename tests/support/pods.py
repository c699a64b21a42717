"""Members as pods: processes of the command line with their own consumer ids, over real servers."""

import os
import signal
import subprocess
import sys
import uuid

from legacy_consumer.fetching.librdkafka import produce_all
from tests.support.waiting import eventually

PARTITIONS = 6


class Pods:
    """A group whose members are processes of `legacy-consumer consume`, each with its own consumer id.

    history: the ZkHistory of the server. folder: members write their output there, and may import modules from it.
    properties: of all members.
    """

    def __init__(self, kafka, history, store, folder, properties):
        self.kafka = kafka
        self.history = history
        self.store = store
        self.folder = folder
        self.properties = properties
        self.group = self.topic = f"rolling-{uuid.uuid4().hex[:8]}"
        self.running = {}
        self.produced = 0
        kafka.create_topic(self.topic, partitions=PARTITIONS)

    def start(self, name, **properties):
        given = {
            "consumer.id": name,
            "auto.offset.reset": "smallest",
            "zookeeper.session.timeout.ms": 4000,
            "fetcher": "librdkafka",  # starts in a third of the time
            **self.properties,
            **properties,
        }
        words = [word for key, value in given.items() for word in ("--property", f"{key}={value}")]
        with (self.folder / f"{name}.out").open("ab") as out, (self.folder / f"{name}.err").open("ab") as err:
            self.running[name] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "legacy_consumer", "consume", "--zookeeper", self.kafka.zookeeper_connect),
                    *("--group", self.group, "--topic", self.topic, "-v", *words),
                ],
                stdout=out,
                stderr=err,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])},
            )

    def end(self, name, how=signal.SIGTERM):
        process = self.running.pop(name)
        process.send_signal(how)
        return process.wait(30)

    def close(self):
        for name in list(self.running):
            self.end(name, signal.SIGKILL)

    def owners(self):
        path = f"/consumers/{self.group}/owners/{self.topic}"
        texts = {int(p): self.store.get_data(f"{path}/{p}").data.decode() for p in self.store.get_children(path)}
        return {number: text.removeprefix(f"{self.group}_").removesuffix("-0") for number, text in texts.items()}

    def await_owners(self, expected):
        eventually(lambda: self.owners() == expected)

    def produce(self, count):
        """Produce numbered messages to all partitions in turn."""
        values = [b"%d" % n for n in range(self.produced, self.produced + count)]
        self.produced += count
        settings = {"bootstrap.servers": self.kafka.bootstrap_servers}
        produce_all(self.topic, [(None, value, int(value) % PARTITIONS) for value in values], settings)

    def printed(self):
        return sorted(int(line) for file in self.folder.glob("*.out") for line in file.read_text().split())

    def repeated(self):
        """Return how many messages were printed more than once."""
        printed = self.printed()
        return len(printed) - len(set(printed))

    def await_all_printed(self):
        eventually(lambda: set(self.printed()) == set(range(self.produced)))

    def committed(self):
        path = f"/consumers/{self.group}/offsets/{self.topic}"
        return {number: int(self.store.get_data(f"{path}/{number}").data) for number in range(PARTITIONS)}

    def turns(self):
        """Return {partition: all changes of its owner znode, in order}."""
        znodes = self.history.below(f"/consumers/{self.group}/owners/{self.topic}")
        return {int(path.rpartition("/")[2]): changes for path, changes in znodes.items()}

    def lives(self):
        """Return {partition: the (id, session) of each claim, in order}."""
        return {
            number: [
                (change.data.decode().removeprefix(f"{self.group}_").removesuffix("-0"), change.session)
                for change in changes
                if change.data is not None
            ]
            for number, changes in self.turns().items()
        }
