"""Read all offsets with two processes of kazoo, pipelined and nothing else: kazoo_offsets.py ZOOKEEPER ZNODES"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier

from kazoo.client import KazooClient

PROCESSES = 2


def read_half(zookeeper: str, half: int, ready: Barrier, results: SimpleQueue[int]) -> None:
    """List and read every second group, and put the number of its offsets into results."""
    client = KazooClient(zookeeper)
    client.start()
    ready.wait()
    groups = sorted(client.get_children("/consumers"))[half::PROCESSES]
    parents = [f"/consumers/{group}/offsets" for group in groups]
    for _ in range(2):  # topics, then partitions
        asked = [(parent, client.get_children_async(parent)) for parent in parents]
        parents = [f"{parent}/{name}" for parent, answer in asked for name in answer.get()]
    offsets = [int(answer.get()[0]) for answer in [client.get_async(path) for path in parents]]
    results.put(len(offsets))
    client.stop()
    client.close()


def main() -> None:
    """Print the figures as one line of JSON."""
    zookeeper, znodes = sys.argv[1], int(sys.argv[2])
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(PROCESSES + 1)
    results: SimpleQueue[int] = context.SimpleQueue()
    processes = [context.Process(target=read_half, args=(zookeeper, half, ready, results)) for half in range(PROCESSES)]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    count = sum(results.get() for _ in processes)
    seconds = time.perf_counter() - began
    for process in processes:
        process.join()
    if count != znodes:
        sys.exit(f"{count} of {znodes} offsets were read")
    print(json.dumps({"znodes_per_s": znodes / seconds, "seconds": seconds}))


if __name__ == "__main__":
    main()
