"""The table in docs/testing.md of calls that may raise lacks no call, and each test that injects an error exists."""

import inspect
import re

import pytest

from legacy_consumer.fetching.fetcher import FetchedBatch, Fetcher, FetcherFactory, LogOffsets
from legacy_consumer.member.listener import GenerationListener, LossListener, StartListener
from legacy_consumer.offsets import GroupOffsets, OffsetStore
from tests.support.named_proofs import is_there, proofs_of, tables_of, text_of
from zk_layout.store import ZkStore

SEAMS = (
    ZkStore,
    OffsetStore,
    GroupOffsets,
    FetcherFactory,
    Fetcher,
    FetchedBatch,
    LogOffsets,
    StartListener,
    LossListener,
    GenerationListener,
)
TEXT = text_of("testing.md").partition("## Every call that may raise\n")[2].partition("\n## ")[0]
ROWS = [row for table in tables_of(TEXT) for row in table]
SAID = [call for row in ROWS for call in proofs_of(row[0])]


def calls_of(seam):
    """Return the public calls that a seam itself declares, without inherited calls, in the table's spelling."""
    return {
        f"{seam.__name__}.{name}" for name in vars(seam) if inspect.isfunction(getattr(seam, name)) and name[0] != "_"
    }


@pytest.mark.parametrize("seam", SEAMS, ids=lambda seam: seam.__name__)
def test_every_call_of_a_seam_stands_in_the_table_or_raises_nothing(seam):
    harmless = set(re.findall(r"`(\w+\.\w+)`", TEXT.partition("These raise nothing:")[2]))
    assert calls_of(seam) - {*SAID} - harmless == set()


def test_no_call_stands_in_the_table_that_is_none():
    known = {call for seam in SEAMS for call in calls_of(seam)} | {"RebalanceListener.before_releasing_partitions"}
    known.add("RebalanceListener.before_starting_fetchers")
    assert {*SAID} - known == set()
    assert len(SAID) == len({*SAID})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_row_says_what_an_error_means_and_names_the_test_that_injects_it(row):
    assert len(row) == 3
    assert row[1]
    proof = proofs_of(row[2])
    assert proof
    assert [name for name in proof if not is_there(name)] == []
