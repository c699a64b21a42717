"""The exporter's options that choose groups, whose names any client may choose."""

from __future__ import annotations

import click
import pytest

from legacy_consumer.operations.cli.exporter import _regex, _wanted


def test_groups_are_chosen_by_the_whole_name_as_topics_are_by_a_filter():
    wanted = _wanted(_regex(None, None, "bill.*|orders"), _regex(None, None, ".*-test"))
    assert [name for name in ("billing", "my-billing", "orders", "bill-test", "börse") if wanted(name)] == [
        "billing",
        "orders",
    ]
    assert _wanted(_regex(None, None, "b.rse"), None)("börse")
    with pytest.raises(click.BadParameter, match=r"'a\[' is no regular expression of a topic filter"):
        _regex(None, None, "a[")


def test_a_name_on_which_matching_would_not_end_is_not_wanted_in_bounded_time():
    assert not _wanted(_regex(None, None, "(x+x+)+y"), None)("x" * 10_000)
