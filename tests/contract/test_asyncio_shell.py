"""asyncio drives the core against a scripted broker: the smallest shell, to show that the core needs no other one."""

import asyncio

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.columnar.core import BrokerAddress, FetchCore, HangUp, Open, Records, Send
from legacy_consumer.fetching.columnar.protocol.api_versions import versions_by_registration
from legacy_consumer.fetching.columnar.protocol.fetch import decode_fetch, encode_fetch
from legacy_consumer.fetching.columnar.protocol.framing import HEAD_BYTES, Api, check_head, frame_request
from legacy_consumer.fetching.columnar.records import decode_records, glance
from legacy_consumer.fetching.columnar.settings import FetchSettings
from tests.support.scripted_broker import HANG_UP, ScriptedBroker
from zk_layout.model import TopicPartition

COUNT = 200
TP = TopicPartition("t", 0)
VALUES = [b"%d" % number for number in range(COUNT)]


class AsyncFetcher:
    """Fetches partitions of one broker until all their messages have come."""

    def __init__(self, broker):
        config = ConsumerConfig.load(zookeeper_connect="h:1", group_id="g", refresh_leader_backoff_ms=20)
        self.broker = BrokerAddress(broker.broker_id, "127.0.0.1", broker.port, 1)
        self.version = versions_by_registration(1).of(Api.FETCH)
        self.core = FetchCore(FetchSettings.of(config), glance)
        self.found = {}
        self.tasks = set()
        self.streams = None
        self.woken = asyncio.Event()

    async def fetch(self, count):
        self.follow(self.core.change({TP: 0}))
        clock = asyncio.get_running_loop().time
        while len(self.found) < count:
            self.woken.clear()
            for order in self.core.requests(clock()):
                self.obey(order)
            self.follow(self.core.look_for_silence(clock()))
            due = self.core.next_deadline() - clock()
            try:
                await asyncio.wait_for(self.woken.wait(), None if due == float("inf") else max(due, 0))
            except asyncio.TimeoutError:
                continue
        for task in self.tasks:
            task.cancel()
        self.obey(HangUp(self.broker))

    def obey(self, order):
        match order:
            case HangUp():
                if self.streams is not None:
                    self.streams[1].close()
            case Open() | Send():
                task = asyncio.ensure_future(self.speak(order))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def speak(self, order):
        clock = asyncio.get_running_loop().time
        try:
            if isinstance(order, Open):
                self.streams = await asyncio.open_connection(self.broker.host, self.broker.port)
                self.core.opened(self.broker, self.version)
            else:
                response = await self.ask(order)
                self.follow(self.core.received(self.broker, response, clock()))
        except (OSError, EOFError) as error:
            self.follow(self.core.lost(self.broker, str(error), clock()))
        self.woken.set()

    async def ask(self, send):
        reader, writer = self.streams
        body = encode_fetch(send.version, send.limits, send.partitions, send.session, send.forgotten)
        writer.write(frame_request(Api.FETCH, send.version, 7, "asyncio", body))
        head = await reader.readexactly(HEAD_BYTES)
        return decode_fetch(send.version, await reader.readexactly(check_head(head, 7, send.largest_bytes, Api.FETCH)))

    def follow(self, events):
        for event in events:
            match event:
                case Records(tp, _, position, records, _):
                    for one in decode_records(records, tp, position, aborted=(), read_committed=False).messages():
                        assert one.offset() == len(self.found)
                        self.found[one.offset()] = one.value()
                case HangUp():
                    self.obey(event)
                case _ if hasattr(event, "partitions"):  # the partition's leader never changes
                    for tp in event.partitions:
                        self.core.leader_found(tp, self.broker, asyncio.get_running_loop().time())


def test_asyncio_drives_the_core_over_lost_connections():
    broker = ScriptedBroker(0)
    broker.logs[TP] = list(VALUES)
    broker.misbehave(lambda _: HANG_UP, lambda frame: (frame[:50], HANG_UP))
    fetcher = AsyncFetcher(broker)
    try:
        asyncio.run(asyncio.wait_for(fetcher.fetch(COUNT), 60))
    finally:
        broker.close()
    assert list(fetcher.found.values()) == VALUES
