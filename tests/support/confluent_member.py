"""A member of confluent-kafka's consumer as a process; its output has the lines of GroupMember.java.

Run as `python confluent_member.py TOPIC PROPERTY=VALUE...`. It ends at the end of standard input.
"""

from __future__ import annotations

import sys
import threading

from confluent_kafka import Consumer, KafkaException


def say(*words: object) -> None:
    print(*words, flush=True)


def main(topic: str, *properties: str) -> None:
    ends = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ends.set()

    threading.Thread(target=watch, daemon=True).start()
    consumer = Consumer(dict(pair.split("=", 1) for pair in properties))
    consumer.subscribe(
        [topic],
        on_assign=lambda _, given: say("assigned", *sorted(one.partition for one in given)),
        on_revoke=lambda *_: say("revoked"),
    )
    while not ends.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error():
            say("error", message.error())
            continue
        say("message", message.partition(), message.offset())
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            say("commit failed", error)
    consumer.close()
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
