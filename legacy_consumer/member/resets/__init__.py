"""Resets of the offsets of running members: see records for the znodes and the steps."""

from legacy_consumer.member.resets.follower import ResetFollower
from legacy_consumer.member.resets.records import (
    Answer,
    AnswerState,
    Request,
    RequestState,
    answer_path,
    answers_path,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    request_path,
)
from legacy_consumer.member.resets.standing import StandingReset, standing_reset, standing_resets

__all__ = [
    "Answer",
    "AnswerState",
    "Request",
    "RequestState",
    "ResetFollower",
    "StandingReset",
    "answer_path",
    "answers_path",
    "decode_answer",
    "decode_request",
    "encode_answer",
    "encode_request",
    "request_path",
    "standing_reset",
    "standing_resets",
]
