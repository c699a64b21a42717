"""A process that forks while it has a consumer of librdkafka, as servers that fork their workers do."""

import subprocess
import sys

import pytest

_PROGRAM = """
import gc, os, sys
from legacy_consumer.fetching.librdkafka.client_consumer import ConsumerHandle
from zk_layout.model import TopicPartition

handle = ConsumerHandle({"bootstrap.servers": "127.0.0.1:9", "group.id": "g"})
handle.assign({TopicPartition("t", 0): 0})
handle.consume(1, 0.1)
child = os.fork()
if child == 0:
    END
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
handle.close()
"""


@pytest.mark.parametrize("end", ["sys.exit(7)", "del handle; gc.collect(); os._exit(7)"])
def test_a_forked_child_ends_as_it_wants_although_it_has_a_consumer_of_librdkafka(end):
    """librdkafka ended the child with an assertion (SIGABRT), when Python freed the consumer."""
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM.replace("END", end)], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "7\n"
