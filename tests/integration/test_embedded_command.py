import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from legacy_consumer.errors import PortInUseError
from legacy_consumer.operations.cli.embedded import embedded
from legacy_consumer.sandbox.servers.ports import free_port, is_free

pytestmark = pytest.mark.kafka


@pytest.fixture
def run(tmp_path):
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from legacy_consumer.operations.cli.embedded import embedded; embedded()",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_up_prints_its_addresses_as_json_and_leaves_nothing(run, tmp_path, end):
    taken = set()
    zookeeper_port, kafka_port = free_port(taken), free_port(taken)
    process = run(
        "up", "--json", "--topic", "orders:6", "--topic", "other",
        "--zookeeper-port", str(zookeeper_port), "--kafka-port", str(kafka_port),
    )  # fmt: skip
    told = json.loads(process.stdout.readline())
    assert told["zookeeper_connect"] == f"127.0.0.1:{zookeeper_port}"
    assert told["bootstrap_servers"] == f"127.0.0.1:{kafka_port}"
    assert told["topics"] == {"orders": 6, "other": 1}
    for pid in told["zookeeper_pids"] + told["broker_pids"]:
        os.kill(pid, 0)
    process.send_signal(end)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")
    for pid in told["zookeeper_pids"] + told["broker_pids"]:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert is_free(zookeeper_port)
    assert is_free(kafka_port)
    assert list(tmp_path.iterdir()) == []


def test_up_prints_its_addresses_for_people(run):
    process = run("up", "--kafka", "none", "--ensemble")
    assert process.stdout.readline().startswith("ZooKeeper 3.9")
    assert process.stdout.readline() == "Ctrl-C ends all and removes the data\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("stopped\n", "")


def test_sigterm_while_the_servers_start_leaves_nothing(run, tmp_path):
    process = run("up", "--json")
    while not any(path.name.startswith("legacy-consumer-zookeeper") for path in tmp_path.iterdir()):
        assert process.poll() is None
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_busy_port_is_the_librarys_own_error(tmp_path):
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
        result = CliRunner().invoke(embedded, ["up", "--zookeeper-port", str(port)])
    assert isinstance(result.exception, PortInUseError)
    assert result.exception.port == port


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kafka", "1.0.0"], "'1.0.0' is not one of '0.8.2.2'"),
        (["--brokers", "0"], "0 is not in the range"),
        (["--topic", "a:b"], "is not NAME or NAME:PARTITIONS"),
        (["--kafka", "none", "--topic", "a"], "--topic needs a broker"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments, words):
    result = CliRunner().invoke(embedded, ["up", *arguments])
    assert result.exit_code == 2
    assert words in result.output


def test_the_help_ends_with_an_example():
    output = CliRunner().invoke(embedded, ["up", "--help"]).output
    assert "legacy-consumer embedded up --kafka 1.1.1 --brokers 3 --topic orders:6\n" in output
