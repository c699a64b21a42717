"""The manifests are what Kubernetes takes, and what they say of our commands is true."""

import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from legacy_consumer.cli import main
from legacy_consumer.config import ConsumerConfig

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


def containers():
    for document in (param.values[0] for param in DOCUMENTS):
        if document["kind"] == "Deployment":
            yield from document["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize("container", list(containers()), ids=lambda container: container["name"])
def test_the_arguments_are_options_of_the_command(container):
    name, *arguments = container["args"]
    command = main.get_command(None, name)
    known = {option for parameter in command.params for option in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("--")} <= known


def test_the_grace_period_is_longer_than_leaving_may_take(tmp_path):
    config, deployment = (DOCUMENTS[0].values[0], DOCUMENTS[1].values[0])
    file = tmp_path / "consumer.properties"
    file.write_text(config["data"]["consumer.properties"])
    loaded = ConsumerConfig.load(file)
    assert not loaded.warnings
    grace_s = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s > loaded.drain_timeout_ms / 1000 + 5
    assert re.fullmatch(r"[\w.,:/-]+", loaded.zookeeper_connect)
