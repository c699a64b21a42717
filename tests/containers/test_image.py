"""The promises of the image to its users."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.containers.confinement import as_in_a_pod, confinement, pod_of, services

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.containers]


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
    """The image holds Kafka's jars."""
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
    assert last.startswith("Error: waited 3 s in vain for ZooKeeper at zk1.invalid:2181: check that it runs")


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
    """Checks each of the two commands that is installed."""
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


def test_it_holds_what_is_pinned_with_hashes_and_nothing_else(image):
    listed = docker("run", "--rm", "--entrypoint", "pip", image, "list", "--format", "json")
    held = {entry["name"].lower().replace("_", "-"): entry["version"] for entry in json.loads(listed.stdout)}
    pinned = {
        Requirement(line.removesuffix("\\"))
        for line in (ROOT / "requirements-deploy.txt").read_text().splitlines()
        if re.match(r"\w", line)
    }
    wanted = {
        one.name: str(one.specifier).removeprefix("==")
        for one in pinned
        if one.marker is None or one.marker.evaluate({"python_full_version": "3.11.2", "python_version": "3.11"})
    }
    assert {
        name: version
        for name, version in held.items()
        if name not in {"pip", "setuptools", "legacy-consumer", "legacy-consumer-native"}
    } == wanted


_CAN_DECODE = "from legacy_consumer.fetching.fetchers import decoder_obstacle; print(decoder_obstacle())"


def test_a_consumer_of_the_compose_file_has_the_native_decoder(image):
    confined = confinement("consumer")
    assert confined["volumes"] == []
    (tmp, options), *_ = confined["tmpfs"].items()
    told = docker(
        "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--tmpfs", f"{tmp}:{options}",
        "--entrypoint", "python", image, "-c", _CAN_DECODE,
    )  # fmt: skip
    assert (told.returncode, told.stdout, told.stderr) == (0, "None\n", "")


@pytest.mark.parametrize("manifest", ["consumer.yaml", "consumer-rolling.yaml"])
def test_a_consumer_in_a_pod_writes_nowhere_else_and_has_the_native_decoder(image, manifest, tmp_path):
    pod = pod_of(manifest)
    (container,) = pod["containers"]
    confined = as_in_a_pod(pod, container, tmp_path)
    told = docker("run", "--rm", "--network", "none", *confined, "--entrypoint", "python", image, "-c", _CAN_DECODE)
    assert (told.returncode, told.stdout, told.stderr) == (0, "None\n", "")
    assert told_rights(docker("run", "--rm", *confined, "--entrypoint", "sh", image, "-c", _RIGHTS)) == _NONE


def test_the_exporter_in_a_pod_has_no_rights(image, tmp_path):
    pod = pod_of("exporter.yaml")
    (container,) = pod["containers"]
    confined = as_in_a_pod(pod, container, tmp_path)
    assert told_rights(docker("run", "--rm", *confined, "--entrypoint", "sh", image, "-c", _RIGHTS)) == _NONE
    told = docker("run", "--rm", *confined, image, "exporter", "--help")
    assert told.returncode == 0, told.stderr


_RIGHTS = (
    "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; touch /opt/x /usr/x /var/lib/consumer/x; true"
)
_NONE = {"10001", "CapEff: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1"}


def told_rights(told):
    """Check that the container's three writes failed. Returns: the lines about its user and rights."""
    assert told.stderr.count("Read-only file system") == 3, told.stderr
    return {line.replace("\t", " ") for line in told.stdout.splitlines()}


@pytest.mark.parametrize("name", sorted(services()))
def test_every_service_of_the_compose_file_is_confined(name):
    confined = confinement(name)
    assert confined["cap_drop"] == ["ALL"]
    assert confined["security_opt"] == ["no-new-privileges:true"]
    assert confined["read_only"] is True
    assert services()[name].get("user") is None  # the user that the image sets
    assert not {"privileged", "cap_add", "network_mode", "pid", "devices"} & set(services()[name])
