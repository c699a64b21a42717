"""A member of a group in Python, which prints and accepts the same lines as java/Member.java.

Arguments: static|whitelist|blacklist SUBSCRIPTION STREAMS PROPERTY=VALUE...
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from legacy_consumer import Blacklist, ConsumerConfig, ConsumerConnector, Whitelist

_say_lock = threading.Lock()


def say(line):
    with _say_lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class Teller:
    """A rebalance listener that prints its calls."""

    def before_releasing_partitions(self, partitions):
        say("event releasing " + " ".join(map(str, sorted(partitions))))

    def before_starting_fetchers(self, partitions, assignment):
        say("assignment " + " ".join(f"{tp}={thread}" for tp, thread in assignment.items()))


def consume(stream):
    try:
        for message in stream:
            say(f"message {message.topic()} {message.partition()} {message.offset()}")
    except Exception as error:
        say(f"event failed {type(error).__name__}: {error}")


def streams_of(connector, kind, subscription, count):
    if kind == "static":
        counts = {}
        for part in subscription.split(","):
            topic, _, number = part.rpartition(":")
            counts[topic] = int(number)
        return [stream for streams in connector.create_message_streams(counts).values() for stream in streams]
    topic_filter = {"whitelist": Whitelist, "blacklist": Blacklist}[kind](subscription)
    return connector.create_message_streams_by_filter(topic_filter, count)


def main(kind, subscription, count, *properties):
    config = ConsumerConfig.load(overrides=dict(pair.split("=", 1) for pair in properties))
    ended = threading.Event()
    connector = ConsumerConnector(config)
    connector.set_rebalance_listener(Teller())

    def end(*_):
        connector.end_streams()
        ended.set()

    def obey():
        for command in sys.stdin:
            if command.strip() == "commit":
                connector.commit_offsets()
                say("event committed")
            elif command.strip() == "shutdown":
                break
        end()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=obey, daemon=True).start()
    threads = []
    with connector:
        try:
            streams = streams_of(connector, kind, subscription, int(count))
        except Exception as error:
            say(f"event failed {type(error).__name__}: {error}")
            raise
        say(f"event ready {connector.consumer_id}")
        for stream in streams:
            threads.append(threading.Thread(target=consume, args=(stream,), daemon=True))
            threads[-1].start()
        ended.wait()
    for thread in threads:
        thread.join()
    say("event closed")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if os.environ.get("INTEROP_DEBUG"):
        for name in ("rebalance", "legacy_consumer"):
            logging.getLogger(name).setLevel(logging.DEBUG)
    main(*sys.argv[1:])
