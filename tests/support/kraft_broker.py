"""One Kafka 4.1 broker without ZooKeeper (KRaft), only to compare our group coordinator with its coordinator."""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from legacy_consumer.embedded import find_java
from legacy_consumer.sandbox.servers import jars as embedded_jars
from legacy_consumer.sandbox.servers.jvm import java_command, write_logging_files, write_properties
from legacy_consumer.sandbox.servers.ports import LOOPBACK, accepts_connections, free_port
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from tests.support.waiting import eventually

KRAFT_VERSION = "4.1.0"
_MODULE = "kafka_2.13"
_START_TIMEOUT_S = 120.0


def kraft_jars():
    """Return the jars, fetched like the jars of the other versions and kept beside them; no checksum is locked."""
    folder = embedded_jars.jar_root() / KRAFT_VERSION
    if not folder.is_dir():
        embedded_jars.KAFKA_MODULES[KRAFT_VERSION] = _MODULE
        with Workspace(f"jars-{KRAFT_VERSION}", folder.parent) as workspace:
            embedded_jars.resolve(KRAFT_VERSION, workspace, folder).rename(folder)
    return sorted(folder.glob("*.jar"))


@contextmanager
def kraft_broker(properties):
    """Run a broker that is its own controller, with a topic t of two partitions. Yields: (host, port)."""
    jars, java, taken = kraft_jars(), find_java(), set()
    port, controller = free_port(taken), free_port(taken)
    with Workspace(f"kafka-{KRAFT_VERSION}") as workspace:
        folder = workspace.folder
        write_logging_files(folder)
        write_properties(
            folder / "server.properties",
            {
                "process.roles": "broker,controller",
                "node.id": "0",
                "controller.quorum.voters": f"0@{LOOPBACK}:{controller}",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller}",
                "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": os.fspath(folder / "data"),
                "offsets.topic.replication.factor": "1",
                "group.initial.rebalance.delay.ms": "0",
                **properties,
            },
        )
        config = os.fspath(folder / "server.properties")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        form = ["format", "-t", cluster, "-c", config]
        subprocess.run(
            java_command(java, jars, "kafka.tools.StorageTool", form, folder=folder), check=True, capture_output=True
        )
        command = java_command(java, jars, "kafka.Kafka", [config], folder=folder, flags=("-Xmx384m",))
        server = ServerProcess("kraft", command, workspace, folder / "server.log")
        server.wait_until(lambda: accepts_connections(port), _START_TIMEOUT_S, "it did not accept connections")
        _create_topic(f"{LOOPBACK}:{port}")
        yield LOOPBACK, port


def _create_topic(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def create():
        try:
            admin.create_topics([NewTopic("t", 2, 1)])["t"].result(10)
        except KafkaException as error:
            if "already exists" not in str(error):
                raise
        return True

    eventually(create)
