"""Hashes and order of texts compared with java.lang.String, in a child process that answers line by line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rebalance.assignors.java_hash import java_sort_key, java_string_hash

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs java on PATH"),
]

SOURCE = Path(__file__).parent / "testdata" / "HashAndOrder.java"


class Java:
    """A JVM that runs HashAndOrder."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", str(SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def judge(self, texts: list[str]) -> tuple[list[int], list[int]]:
        """Return the hash of each text, and the texts' indexes in Java's order; equal texts keep their order."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = " ".join(text.encode("utf-16-be", "surrogatepass").hex() for text in texts)
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        hashes, _, order = self.process.stdout.readline().strip("\n").partition("\t")
        return [int(number) for number in hashes.split()], [int(index) for index in order.split()]

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def java():
    process = Java()
    yield process
    process.close()


def ours(texts: list[str]) -> tuple[list[int], list[int]]:
    return (
        [java_string_hash(text) for text in texts],
        sorted(range(len(texts)), key=lambda index: java_sort_key(texts[index])),
    )


def test_characters_of_one_and_of_two_units_hash_as_in_java(java):
    texts = [chr(code) for code in (*range(0x10000), *range(0x10000, sys.maxunicode + 1, 61))]
    for start in range(0, len(texts), 0x4000):
        some = texts[start : start + 0x4000]
        assert java.judge(some)[0] == [java_string_hash(text) for text in some]


def test_every_character_there_is_has_its_place_as_in_java(java):
    # every 16th code point, and all near the borders where code points and UTF-16 units sort differently
    codes = sorted({*range(0, sys.maxunicode + 1, 16), *range(0xD7F0, 0xE010), *range(0xFFF0, 0x10010)}, reverse=True)
    texts = [chr(code) for code in codes]
    assert java.judge(texts)[1] == ours(texts)[1]


# lone surrogates too: a Java text may contain them
ANYTHING = st.text(st.characters(exclude_categories=()), max_size=12)
PRONE = st.text(
    st.sampled_from("a\u00e9\ud7ff\ud800\udbff\udc00\udfff\ue000\ufffd\uffff\U00010000\U0010ffff"), max_size=6
)
LIKE_IDS = st.text(st.sampled_from("gG_-.:019azAZ"), max_size=12)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(ANYTHING | PRONE | LIKE_IDS, min_size=1, max_size=40))
def test_texts_hash_and_sort_as_in_java(java, texts):
    assert java.judge(texts) == ours(texts)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(ANYTHING.filter(bool), st.integers(2_000, 20_000))
def test_long_texts_overflow_as_in_java(java, text, times):
    assert java.judge([text * times])[0] == [java_string_hash(text * times)]
