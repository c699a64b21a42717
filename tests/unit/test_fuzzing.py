"""A few seconds of `make fuzz`, and everything that it ever found."""

import itertools

import pytest

from tests.fuzzing import KEPT, TARGETS, Target, inputs, trouble_with

ROUNDS = 150


@pytest.mark.parametrize(("name", "data"), KEPT, ids=lambda value: str(value)[:40])
def test_what_was_once_a_finding_is_none(name, data):
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
def test_what_a_decoder_should_not_raise_is_a_finding(decode, said):
    assert said in trouble_with(Target(lambda _: b"", decode, (KeyError,)), b"\xff")
