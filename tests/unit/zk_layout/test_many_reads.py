"""When reads of many znodes go in one request."""

from __future__ import annotations

import struct

import pytest

from zk_layout.errors import UnimplementedRequestError
from zk_layout.many_reads import ReadsMany
from zk_layout.multi_read import NO_NODE

PATHS = [f"/{number}" for number in range(8)]


class Store(ReadsMany):
    """Counts requests; no znode exists. refuses: the server lacks multi_read."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.single_reads = self.multi_reads = 0

    def pipeline_data(self, paths, watcher):
        read = [None for _ in paths]
        self.single_reads += len(read)
        return read

    def pipeline_children(self, paths):
        return self.pipeline_data(paths, None)

    def pipeline_stats(self, paths, watcher):
        return self.pipeline_data(paths, None)

    def multi_read(self, kind, paths):
        self.multi_reads += 1
        if self.refuses:
            raise UnimplementedRequestError
        return b"".join([struct.pack("!iBii", -1, 0, NO_NODE, NO_NODE) for _ in paths]) + struct.pack("!iBi", -1, 1, -1)


READS = ("get_data_many", "get_children_many", "exists_many")


@pytest.mark.parametrize("read", READS)
def test_two_and_more_reads_are_one_request_to_a_server_that_serves_it(read):
    store = Store()
    store.serves_multi_read = True
    assert getattr(store, read)(PATHS[:1]) == [None]
    assert (store.multi_reads, store.single_reads) == (0, 1)
    assert getattr(store, read)(PATHS[:2]) == [None, None]
    assert (store.multi_reads, store.single_reads) == (1, 1)


@pytest.mark.parametrize("read", READS)
def test_a_server_that_does_not_serve_it_is_never_asked_for_it(read):
    store = Store(refuses=True)
    assert getattr(store, read)(PATHS) == [None] * len(PATHS)
    assert (store.multi_reads, store.single_reads) == (0, len(PATHS))


@pytest.mark.parametrize("read", READS)
def test_a_server_that_refuses_it_later_is_asked_once(read):
    store = Store(refuses=True)
    store.serves_multi_read = True
    for _ in range(2):
        assert getattr(store, read)(PATHS) == [None] * len(PATHS)
    assert (store.multi_reads, store.single_reads) == (1, 2 * len(PATHS))
