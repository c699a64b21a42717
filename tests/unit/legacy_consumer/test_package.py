"""The contents of `import legacy_consumer`, and the modules that it does not load."""

import subprocess
import sys

import pytest

import legacy_consumer


@pytest.mark.parametrize("name", legacy_consumer.__all__)
def test_every_public_name_is_there(name):
    found = getattr(legacy_consumer, name)
    assert isinstance(found, int) or found.__name__ == name
    assert name in dir(legacy_consumer)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'KafkaConsumer'"):
        legacy_consumer.KafkaConsumer  # noqa: B018


def test_importing_the_package_imports_no_heavy_library():
    heavy = ("confluent_kafka", "legacy_consumer_native", "pyarrow", "pyspark", "kazoo", "pydantic")
    code = f"import legacy_consumer, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
