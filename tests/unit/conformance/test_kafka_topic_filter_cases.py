"""Kafka's expectations of Whitelist and Blacklist, and of a regular expression's form in a registration.

Cases: Kafka 0.10.2.2 and 1.1.1, TopicFilterTest.
"""

from __future__ import annotations

import pytest

from rebalance.subscription import Blacklist, Whitelist, subscribed_topics
from zk_layout.codecs import decode_registration, encode_registration
from zk_layout.model import ConsumerRegistration, SubscriptionPattern

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"

CASES = [
    # filter, topic, allowed when internal topics are excluded, and when they are not
    (Whitelist("white1,white2"), "white1", True, True),
    (Whitelist("white1,white2"), "white2", True, True),
    (Whitelist("white1,white2"), "white1white2", False, False),
    (Whitelist("white1,white2"), "black1", False, False),
    (Whitelist(".+"), "alltopics", True, True),
    (Whitelist(".+"), OFFSETS, False, True),
    (Whitelist(".+"), TRANSACTIONS, False, True),
    (Whitelist(OFFSETS), OFFSETS, False, True),
    (Whitelist("white_listed-topic.+"), "white_listed-topic1", True, True),
    (Whitelist("white_listed-topic.+"), "white_listed-topic", False, False),
    (Whitelist("white_listed-topic.+"), "black1", False, False),
    (Whitelist(r"test-(?!bad\b)[\w]+"), "test-good", True, True),
    (Whitelist(r"test-(?!bad\b)[\w]+"), "test-badly", True, True),
    (Whitelist(r"test-(?!bad\b)[\w]+"), "test-bad", False, False),
    (Blacklist("black1"), "white2", True, True),
    (Blacklist("black1"), "black1", False, False),
    (Blacklist("black1"), "black10", True, True),
    (Blacklist("black1"), OFFSETS, False, True),
    (Blacklist("black1"), TRANSACTIONS, False, True),
    (Blacklist("black1,__.*"), OFFSETS, False, False),
]


@pytest.mark.parametrize(("topic_filter", "topic", "excluding", "including"), CASES)
def test_a_filter_allows_what_kafkas_allows(topic_filter, topic, excluding, including):
    assert topic_filter.allows(topic) is excluding
    assert topic_filter.allows(topic, exclude_internal_topics=True) is excluding
    assert topic_filter.allows(topic, exclude_internal_topics=False) is including


@pytest.mark.parametrize(("topic_filter", "topic", "excluding", "including"), CASES)
def test_a_registered_filter_subscribes_to_what_the_filter_allows(topic_filter, topic, excluding, including):
    written = encode_registration(ConsumerRegistration(topic_filter.pattern, ((topic_filter.regex, 3),), 1))
    read = decode_registration("/consumers/g/ids/c", written)
    for exclude, allowed in ((True, excluding), (False, including)):
        assert subscribed_topics(read, [topic], exclude_internal_topics=exclude) == ({topic: 3} if allowed else {})


@pytest.mark.parametrize(
    ("regex", "stands_as"),
    [
        ('-"-', rb"-\"-"),
        ("-\\-", rb"-\\-"),
        ("-/-", rb"-\/-"),
        (r"-\b-", rb"-\\b-"),
        (r"-\f-", rb"-\\f-"),
        (r"-\n-", rb"-\\n-"),
        (r"-\r-", rb"-\\r-"),
        (r"-\t-", rb"-\\t-"),
        ("-\b\f\n\r\t-", rb"-\b\f\n\r\t-"),
        (r"-\u0000-", rb"-\\u0000-"),
        (r"-\u009f-", rb"-\\u009f-"),
        ("-\x00\x1f\x7f\x9f-", rb"-\u0000\u001f\u007f\u009f-"),
        ("-\x20\x7e\xa0\u00e9-", "-\x20\x7e\xa0\u00e9-".encode()),
    ],
)
def test_a_regex_is_escaped_so_that_it_is_read_back_as_it_was(regex, stands_as):
    registration = ConsumerRegistration(SubscriptionPattern.WHITE_LIST, ((regex, 1),), 1)
    written = encode_registration(registration)
    assert b'{"' + stands_as + b'":1}' in written
    assert decode_registration("/consumers/g/ids/c", written) == registration
