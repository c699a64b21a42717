"""What the image promises to whoever runs it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]


def docker(*arguments):
    return subprocess.run(["docker", *arguments], capture_output=True, text=True)


def test_it_runs_as_nobody_in_particular_and_knows_its_commands(image):
    told = docker("run", "--rm", "--entrypoint", "id", image, "-u")
    assert told.stdout.strip() == "10001"
    told = docker("run", "--rm", image)
    assert told.returncode == 0
    for command in ("consume", "exporter", "node", "groups"):
        assert command in told.stdout


def test_servers_start_without_a_network(image):
    """Kafka's jars are inside."""
    code = (
        "from legacy_consumer.embedded import EmbeddedKafka\n"
        "with EmbeddedKafka() as kafka: kafka.create_topic('t'); print('served')"
    )
    told = docker("run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c", code)
    assert told.stdout.strip() == "served", told.stderr


def test_a_consumer_without_a_zookeeper_waits_with_a_bound_and_says_for_what(image):
    told = docker(
        "run",
        "--rm",
        image,
        "consume",
        "--zookeeper",
        "zk1.invalid:2181",
        "--topic",
        "t",
        "--group",
        "g",
        "--wait",
        "3",
    )
    assert told.returncode == 1
    first, last = told.stderr.splitlines()
    assert first == "waiting up to 3 s for ZooKeeper at zk1.invalid:2181"
    assert last.startswith("Error: waited 3 s in vain for ZooKeeper at zk1.invalid:2181: look whether")


def test_a_server_that_does_not_serve_is_unhealthy(image):
    told = docker("run", "--rm", "--env", "HEALTH=zookeeper:2181", "--entrypoint", "healthy", image)
    assert told.returncode == 1
    assert "Connection refused" in told.stdout
    told = docker("run", "--rm", "--env", "HEALTH=nonsense", "--entrypoint", "healthy", image)
    assert told.returncode == 1
    assert "is not zookeeper[:PORT], tcp:PORT or http:PORT/PATH" in told.stdout


def test_a_new_version_of_the_package_is_a_small_layer(image):
    layers = [
        json.loads(layer)
        for layer in docker("history", "--format", "{{json .}}", "--human=false", image).stdout.splitlines()
    ]
    sizes = [int(layer["Size"]) for layer in layers]
    above_dependencies = sizes[: next(index for index, size in enumerate(sizes) if size > 15_000_000)]
    assert 1_000_000 < sum(above_dependencies) < 10_000_000


def test_compose_takes_the_file(image):
    """Whichever of the two is there."""
    found = [
        command
        for command in (["docker", "compose"], ["docker-compose"])
        if shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True).returncode == 0
    ]
    assert found, "neither `docker compose` nor docker-compose is there"
    for command in found:
        told = subprocess.run([*command, "config"], capture_output=True, text=True, cwd=ROOT)
        assert told.returncode == 0, told.stderr
        services = yaml.safe_load(told.stdout)["services"]
        assert {"zk1", "zk2", "zk3", "kafka1", "kafka2", "kafka3", "consumer", "producer", "exporter"} <= set(services)
        published = [str(port) for service in services.values() for port in service.get("ports", [])]
        assert published
        assert all("127.0.0.1" in port for port in published)


def test_a_consumer_does_not_compile_what_the_image_holds(image):
    code = "from legacy_consumer.wire.records import warm_up; warm_up()"
    logged = f"import logging; logging.basicConfig(level=logging.INFO); {code}"
    told = docker("run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c", logged)
    assert told.returncode == 0, told.stderr
    assert "compiling" not in told.stderr
