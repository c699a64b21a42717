"""When the loops are compiled, where they are kept, and what is said about it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[5]
PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s", stream=sys.stdout)
from legacy_consumer.wire.records import decode_records, warm_up
from zk_layout.model import TopicPartition
print("nothing compiled by importing")
assert decode_records(b"", TopicPartition("t", 0), 7).next_offset == 7
assert warm_up() == 0.0
"""


def run(environment, program=PROGRAM):
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=140, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_first_use_is_announced_and_the_next_one_loads_what_is_kept(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    first, second, third = run(environment)
    assert first == "nothing compiled by importing"
    assert second.startswith("legacy_consumer.wire.records.compiling compiling the record decoder: some seconds")
    assert third.startswith("legacy_consumer.wire.records.compiling record decoder ready after ")
    assert list((tmp_path / "kept").rglob("*.nbi"))
    assert run(environment) == ["nothing compiled by importing"]


@pytest.mark.slow
def test_where_nothing_can_be_kept_it_is_compiled_all_the_same():
    # numba finds no folder; taking the right to write away does not impress every user that tests run as
    program = "from numba.core import caching\ncaching.CacheImpl._locator_classes = []\n" + PROGRAM
    first, second, *others, last = run(dict(os.environ), program)
    assert first == "nothing compiled by importing"
    assert "compiling the record decoder" in second
    assert any("set NUMBA_CACHE_DIR to a folder that can be written" in line for line in others)
    assert "record decoder ready after" in last


def test_the_consumer_is_imported_without_the_decoder():
    program = (
        "import sys, legacy_consumer, legacy_consumer.cli; print({'numba', 'cramjam', 'numpy'} & set(sys.modules))"
    )
    assert run(dict(os.environ), program) == ["set()"]


def test_record_batches_are_made_without_pandas_which_takes_40_mb():
    program = """
import importlib.util, sys
from legacy_consumer.wire.records import decode_records
from tests.support.scripted_broker import message
from zk_layout.model import TopicPartition
batch = decode_records(message(0, b"one") + message(1, b"two"), TopicPartition("t\\u00e4glich", 0), 0).to_arrow()
batch.validate(full=True)
print(importlib.util.find_spec("pandas") is not None, "pandas" in sys.modules, batch.column("topic").to_pylist())
"""
    assert run(dict(os.environ), program) == ["True False ['täglich', 'täglich']"]


FOLDERS = """
import logging
from legacy_consumer.wire.records import compiling, decode_records
print([compiling._folder(dispatcher) for dispatcher, _ in compiling._pending])
"""


@pytest.mark.parametrize(
    ("mode", "above", "is_used"),
    [
        (0o700, 0o755, True),
        (0o755, 0o755, True),
        (0o757, 0o755, False),
        (0o700, 0o757, False),
        (0o700, 0o1777, True),
        (0o1777, 0o755, True),  # as in /tmp: what numba makes there is ours alone
    ],
)
def test_compiled_code_is_neither_kept_nor_looked_for_where_others_may_write(tmp_path, mode, above, is_used):
    folder = tmp_path / "above" / "kept"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    folder.parent.chmod(above)
    # numba makes a folder of its own in it
    [shown] = run({**os.environ, "NUMBA_CACHE_DIR": str(folder)}, FOLDERS)
    assert (str(folder) in shown) is is_used
    assert not list(folder.rglob("*.nbi"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_compiled_code_is_not_looked_for_in_a_folder_of_another_user(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    [shown] = run({**os.environ, "NUMBA_CACHE_DIR": str(folder)}, FOLDERS)
    assert str(folder) not in shown
