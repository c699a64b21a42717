"""The import of the columnar fetcher: without pyarrow, and in a process that forks meanwhile, each in a new process."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None  # as if it were not installed
from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.arrow_batches import COLUMNS, LazyMessages, checked_columns
from legacy_consumer.fetching.fetchers import choose_fetcher
from tests.support.plain_sets import PLAIN
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition

print(choose_fetcher(ConsumerConfig.load(zookeeper_connect="h:1", group_id="g")).fetcher)
from legacy_consumer.fetching.columnar import ColumnarBatch, ColumnarFetchers
from legacy_consumer.fetching.columnar.records import decode_records

tp = TopicPartition("t", 0)
messages = LazyMessages(ColumnarBatch([decode_records(PLAIN, tp, 0)]))
offsets = [message.offset() for message in messages]
assert offsets == [message.offset() for message in messages[:]] == list(range(40)), offsets
assert messages[7].value() == bytes([7]) * 63
assert messages.next_offsets == {tp: 40}
try:
    checked_columns(COLUMNS)
except ConfigError as error:
    print(error)
"""

FORKED = """
import importlib.abc, os, signal, sys, threading
from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching import fetchers

slow, fetcher = sys.argv[1:]
is_loading, is_forked = threading.Event(), threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == slow and not is_loading.is_set():
            is_loading.set()
            is_forked.wait(0.3)

sys.meta_path.insert(0, Slow())
config = ConsumerConfig.load(zookeeper_connect="h:1", group_id="g", fetcher=fetcher)

def load():
    return fetchers.make_fetchers(config, None, fetchers.choose_fetcher(config))

thread = threading.Thread(target=load)
thread.start()
assert is_loading.wait(60)
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(load() is None)
is_forked.set()
thread.join()
print(os.waitpid(child, 0)[1], type(load()).__name__)
"""


def output_of(program, *arguments):
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert not ran.stderr
    return ran.stdout.splitlines()


def test_messages_come_without_pyarrow_and_arrow_batches_say_what_to_install():
    assert output_of(WITHOUT_PYARROW) == ["columnar", "arrow_batches: needs pyarrow: install legacy-consumer[fast]"]


@pytest.mark.parametrize(
    ("slow", "fetcher", "made"),
    [
        ("legacy_consumer.fetching.columnar.log_offsets", "columnar", "ColumnarFetchers"),
        ("confluent_kafka.admin", "librdkafka", "LibrdkafkaFetchers"),
    ],
)
def test_a_child_forked_while_another_thread_loads_the_fetcher_loads_it_too(slow, fetcher, made):
    assert output_of(FORKED, slow, fetcher) == [f"0 {made}"]
