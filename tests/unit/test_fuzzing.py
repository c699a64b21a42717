"""A few seconds of `make fuzz`, and all inputs by which the fuzzer ever found a defect."""

import ast
import itertools
import re
from pathlib import Path

import pytest

from tests.fuzzing import KEPT, TARGETS, Target, inputs, trouble_with
from zk_layout.codecs.znode import DECODERS

ROUNDS = 150
ROOT = Path(__file__).parents[2]
FUZZERS = ("tests/fuzzing.py",)
NOT_BY_ITSELF = {
    "decode_records": "the native decoder's: test_records_fuzzed, test_records_damaged, and `make native-check`",
    "decode_ahead": "the same decoder, by a thread of its own: test_decoding_ahead",
    "decode_json": "a part of every decoder of JSON",
    "decode_object": "a part of every decoder of JSON",
    "decode_text": "a part of every decoder of JSON",
    "decode_znode": "chooses one of DECODERS",
}
OF_OUR_OWN = {"legacy_consumer.sandbox.quickstart.record": "what one process of the quickstart tells the next"}


def decoders():
    """Yield (module, name) of each function named decode_*."""
    for package in ("zk_layout", "rebalance", "legacy_consumer", "spark_source"):
        for file in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            for name in re.findall(r"^def (decode_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
                yield module, name


def fed():
    """Yield (module, name) of each name that the fuzzers import, and of the decoders of znodes by path."""
    for fuzzer in FUZZERS:
        for node in ast.parse((ROOT / fuzzer).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                yield from ((node.module, alias.name) for alias in node.names)
    yield from ((decode.__module__, decode.__name__) for decode in DECODERS.values())


def test_every_decoder_is_fed_with_hostile_bytes():
    known = set(fed())
    missing = [
        f"{module}.{name}"
        for module, name in decoders()
        if name not in NOT_BY_ITSELF
        and module not in OF_OUR_OWN
        # the fuzzers may import a decoder from its module or from the package that exports it
        and not {(module, name), (module.rpartition(".")[0], name)} & known
    ]
    assert len(list(decoders())) > 30
    assert not missing


@pytest.mark.parametrize(("name", "data"), KEPT, ids=lambda value: str(value)[:40])
def test_former_findings_of_the_fuzzer_are_none_any_more(name, data):
    assert trouble_with(TARGETS[name], data) is None


def test_hostile_bytes_are_taken_or_refused_by_every_decoder():
    found = [
        (name, data, trouble)
        for name, data in itertools.islice(inputs(seed=1), ROUNDS * len(TARGETS))
        if (trouble := trouble_with(TARGETS[name], data)) is not None
    ]
    assert found == []


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        (lambda data: data.decode("ascii"), "UnicodeDecodeError"),
        (lambda data: [][len(data)], "IndexError"),
    ],
)
def test_an_unexpected_exception_of_a_decoder_is_a_finding(decode, said):
    assert said in trouble_with(Target(lambda _: b"", decode, (KeyError,)), b"\xff")
