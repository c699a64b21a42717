from __future__ import annotations

import pickle

import pytest

from rebalance.errors import UnsupportedRegexError
from rebalance.subscription import (
    Blacklist,
    Whitelist,
    consumer_threads,
    normalize_filter,
    subscribed_topics,
    unreadable_reason,
)
from zk_layout.errors import ConfigError
from zk_layout.model import ConsumerRegistration, SubscriptionPattern

TOPICS = ("clicks", "clicks-eu", "views", "__consumer_offsets", "__transaction_state")


def registration(pattern: SubscriptionPattern, *subscription: tuple[str, int]) -> ConsumerRegistration:
    return ConsumerRegistration(pattern, subscription, 0)


@pytest.mark.parametrize(
    ("raw", "regex"),
    [
        ("clicks", "clicks"),
        (" clicks , views\n", "clicks|views"),
        ('"clicks,views"', "clicks|views"),
        ("'\"a'\"", "a"),
        ('a"b', 'a"b'),
        ('" a " ', "a"),
        ("a\tb", "a\tb"),
        ("\u00a0a", "\u00a0a"),
        ('a"\u0085', "a\u0085"),
        ("a'\u2028'", "a'\u2028"),
        ("''\u2029", "\u2029"),
        ("a{1,3}", "a{1|3}"),
        ("", ""),
    ],
)
def test_a_filter_is_tidied_as_kafka_tidies_it(raw, regex):
    assert normalize_filter(raw) == regex


def test_a_white_list_allows_whole_names_only():
    white = Whitelist("clicks, views")
    assert [topic for topic in TOPICS if white.allows(topic)] == ["clicks", "views"]


def test_a_black_list_allows_the_rest():
    assert [topic for topic in TOPICS if Blacklist("clicks").allows(topic)] == ["clicks-eu", "views"]


def test_internal_topics_are_spared_unless_asked_for():
    assert not Whitelist(".*").allows("__consumer_offsets")
    assert not Blacklist("x").allows("__transaction_state")
    assert Whitelist(".*").allows("__consumer_offsets", exclude_internal_topics=False)


@pytest.mark.parametrize("raw", ["(", "a{1,3}", "*"])
def test_a_filter_that_java_would_not_compile_is_refused_at_construction(raw):
    with pytest.raises(UnsupportedRegexError, match="topic filter"):
        Whitelist(raw)


@pytest.mark.parametrize("raw", [None, 5, b"clicks", ["clicks"]])
def test_a_filter_that_is_no_string_is_refused_in_one_line(raw):
    with pytest.raises(ConfigError, match="must be text"):
        Blacklist(raw)


def test_filters_compare_by_their_text_and_survive_pickle():
    assert Whitelist("a") == Whitelist("a")
    assert Whitelist("a") != Blacklist("a")
    assert pickle.loads(pickle.dumps(Blacklist("a, b"))) == Blacklist("a, b")


def test_a_static_subscription_keeps_topics_that_do_not_exist():
    member = registration(SubscriptionPattern.STATIC, ("clicks", 2), ("nosuch", 1), ("__consumer_offsets", 1))
    assert subscribed_topics(member, TOPICS) == {"clicks": 2, "nosuch": 1, "__consumer_offsets": 1}


def test_only_the_first_entry_of_a_white_list_counts():
    member = registration(SubscriptionPattern.WHITE_LIST, ("clicks.*", 3), ("views", 1))
    assert subscribed_topics(member, TOPICS) == {"clicks": 3, "clicks-eu": 3}


def test_a_black_list_obeys_the_reading_members_setting():
    member = registration(SubscriptionPattern.BLACK_LIST, ("clicks.*|__t.*", 1))
    assert subscribed_topics(member, TOPICS) == {"views": 1}
    assert subscribed_topics(member, TOPICS, exclude_internal_topics=False) == {"views": 1, "__consumer_offsets": 1}


@pytest.mark.parametrize("pattern", SubscriptionPattern)
def test_no_entries_subscribe_to_nothing(pattern):
    assert subscribed_topics(registration(pattern), TOPICS) == {}
    assert unreadable_reason(registration(pattern)) is None


def test_a_registered_regex_is_tidied_again_by_its_reader():
    member = registration(SubscriptionPattern.WHITE_LIST, ("clicks, views", 1))
    assert subscribed_topics(member, TOPICS) == {"clicks": 1, "views": 1}


def test_a_registration_with_a_bad_regex_is_unreadable_and_says_why():
    assert unreadable_reason(registration(SubscriptionPattern.WHITE_LIST, ("a(", 1))) == (
        "topic filter 'a(': unclosed group"
    )
    assert unreadable_reason(registration(SubscriptionPattern.STATIC, ("a(", 1))) is None
    assert unreadable_reason(registration(SubscriptionPattern.WHITE_LIST, ("a", 1), ("(", 1))) is None


def test_threads_of_a_member_sort_as_text():
    assert [str(thread) for thread in consumer_threads("c", 12)] == [
        *("c-0", "c-1", "c-10", "c-11", "c-2", "c-3", "c-4", "c-5", "c-6", "c-7", "c-8", "c-9")
    ]
