"""Reads of many znodes in one request: how a store finds out whether its server allows them, and how often it asks."""

from __future__ import annotations

import itertools
import logging
import struct
import threading

import pytest

from tests.support.at_line import AfterCall, AtLine, interrupt
from zk_layout import many_reads
from zk_layout.many_reads import PROBE_AGAIN_S, WORTH_A_PROBE, ReadsMany
from zk_layout.multi_read import NO_NODE

PATHS = [f"/{number}" for number in range(WORTH_A_PROBE)]


class Store(ReadsMany):
    """A store that counts requests and probes; no znode exists. answers: the results of the probes, in turn."""

    def __init__(self, *answers: bool | None) -> None:
        super().__init__("zk:2181", lambda: self.now_s)
        self.now_s = 1000.0
        self.answers = list(answers)
        self.probes = self.single_reads = self.multi_reads = 0

    def pipeline_data(self, paths, watcher):
        read = [None for _ in paths]
        self.single_reads += len(read)
        return read

    def pipeline_children(self, paths):
        raise NotImplementedError

    def pipeline_stats(self, paths, watcher):
        raise NotImplementedError

    def multi_read(self, kind, paths):
        self.multi_reads += 1
        return b"".join([struct.pack("!iBii", -1, 0, NO_NODE, NO_NODE) for _ in paths]) + struct.pack("!iBi", -1, 1, -1)

    def probe_multi_read(self):
        self.probes += 1
        return self.answers.pop(0)


def test_after_a_probe_that_failed_znodes_are_read_one_by_one_for_a_minute():
    store = Store(None, None, True)
    for probes in (1, 2):
        for _ in range(3):
            assert store.get_data_many(PATHS) == [None] * len(PATHS)
            store.now_s += PROBE_AGAIN_S / 3
        assert store.probes == probes
    assert store.multi_reads == 0
    assert store.single_reads == 6 * len(PATHS)
    assert store.get_data_many(PATHS) == [None] * len(PATHS)
    assert (store.probes, store.multi_reads, store.single_reads) == (3, 1, 6 * len(PATHS))


def test_probes_that_fail_are_told_in_one_line_of_the_log(caplog: pytest.LogCaptureFixture):
    store = Store(None, None)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            store.get_data_many(PATHS)
            store.now_s += PROBE_AGAIN_S
    assert store.probes == 2
    [line] = caplog.messages
    assert "zk:2181" in line


def test_other_threads_read_one_by_one_while_one_finds_out():
    store = Store(True)
    others = []

    def probe_while_another_thread_reads():
        other = threading.Thread(target=lambda: others.append(store.get_data_many(PATHS)))
        other.start()
        other.join(5)
        assert others == [[None] * len(PATHS)]
        return True

    store.probe_multi_read = probe_while_another_thread_reads
    store.get_data_many(PATHS)
    assert (store.multi_reads, store.single_reads) == (1, len(PATHS))


@pytest.mark.parametrize("strike_at", [AtLine, AfterCall])
def test_whatever_line_of_finding_out_is_interrupted_the_next_read_finds_out(strike_at):
    for number in itertools.count():
        store = Store(True, True)
        strike = strike_at(number, interrupt, library=(many_reads.__file__,))
        try:
            with strike:
                store.get_data_many(PATHS)
        except KeyboardInterrupt:
            before = store.multi_reads
            store.get_data_many(PATHS)
            assert store.multi_reads == before + 1, f"interrupted at {number}"
        if not strike.struck:
            break
    assert number > 10, "the library's lines were not seen"
