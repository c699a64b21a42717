"""Spark imports the package into several Python workers for every query, so the package loads only what they need."""

import subprocess
import sys

import pytest

HEAVY = {
    "kazoo",
    "confluent_kafka",
    "legacy_consumer_native",
    "tenacity",
    "legacy_consumer.operations.admin",
    "rebalance.led",
}


@pytest.mark.parametrize("module", ["spark_source", "spark_source.source"])
def test_a_worker_that_only_looks_at_options_and_columns_loads_no_client(module):
    program = f"import sys, {module}; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert HEAVY & set(told.stdout.split()) == set()
