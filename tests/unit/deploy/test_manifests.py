"""The manifests are in a form that Kubernetes accepts, and their settings of our commands are right."""

import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.operations.cli import main

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
DOCUMENTS = [
    pytest.param(document, id=f"{path.stem}-{document['kind']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
VERSIONS = ("1.29.0", kubernetes_validate.latest_version())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_kubernetes_takes_it_strictly(document, version):
    kubernetes_validate.validate(document, version, strict=True)


def test_a_misspelt_field_is_noticed():
    document = yaml.safe_load((FOLDER / "consumer.yaml").read_text().split("---")[1])
    document["spec"]["template"]["spec"]["terminationGracePeriodSecond"] = 30
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("document", [p for p in DOCUMENTS if p.values[0]["kind"] in {"Deployment", "StatefulSet"}])
def test_each_container_with_metrics_is_scraped_at_its_port(document):
    template = document["spec"]["template"]
    ports = {port["name"]: port["containerPort"] for one in template["spec"]["containers"] for port in one["ports"]}
    annotations = template["metadata"]["annotations"]
    assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": str(ports["metrics"])}


def containers():
    for document in (param.values[0] for param in DOCUMENTS):
        if document["kind"] in {"Deployment", "StatefulSet"}:
            yield from document["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize("container", list(containers()), ids=lambda container: container["name"])
def test_the_arguments_are_options_of_the_command(container):
    name, *arguments = container["args"]
    command = main.get_command(None, name)
    known = {option for parameter in command.params for option in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("--")} <= known


@pytest.fixture(params=["consumer.yaml", "consumer-rolling.yaml"])
def consumers(request, tmp_path):
    """Return (the members' configuration, the Deployment or StatefulSet that runs them)."""
    documents = list(yaml.safe_load_all((FOLDER / request.param).read_text()))
    file = tmp_path / "consumer.properties"
    file.write_text(documents[0]["data"]["consumer.properties"])
    (running,) = (document for document in documents if document["kind"] in {"Deployment", "StatefulSet"})
    return ConsumerConfig.load(file), running


def test_the_grace_period_is_longer_than_leaving_may_take(consumers):
    loaded, running = consumers
    assert not loaded.warnings
    grace_s = running["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s > loaded.drain_timeout_ms / 1000 + 5
    assert re.fullmatch(r"[\w.,:/-]+", loaded.zookeeper_connect)


def test_a_redeployment_is_one_of_the_two_that_move_each_partition_once(consumers):
    loaded, running = consumers
    grace_ms = running["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] * 1000
    (container,) = running["spec"]["template"]["spec"]["containers"]
    if running["kind"] == "Deployment":
        assert running["spec"]["strategy"] == {"type": "Recreate"}
        assert loaded.scheduled_rebalance_max_delay_ms >= grace_ms
        assert loaded.group_initial_rebalance_delay_ms > 0
    else:
        assert running["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
        assert loaded.scheduled_rebalance_max_delay_ms >= 2 * grace_ms
        assert loaded.group_initial_rebalance_delay_ms == 0
        assert container["args"][container["args"].index("--property") + 1] == "consumer.id=$(POD_NAME)"
        (name,) = container["env"]
        assert name == {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def test_both_ways_of_redeploying_differ_in_nothing_else():
    one, other = (
        next(
            document["spec"]["template"]["spec"]
            for document in yaml.safe_load_all((FOLDER / name).read_text())
            if document["kind"] in {"Deployment", "StatefulSet"}
        )
        for name in ("consumer.yaml", "consumer-rolling.yaml")
    )
    (rolling,) = other["containers"]
    del rolling["env"]
    at = rolling["args"].index("--property")
    del rolling["args"][at : at + 2]
    assert one == other
