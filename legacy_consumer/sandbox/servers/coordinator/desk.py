"""The coordinator in memory, with the event loop's clock; it keeps the requests that wait for an answer."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Callable

from rebalance.coordination import Coordinator, Settings
from rebalance.coordination.effects import Answer, Effect, Moved, Reply
from rebalance.coordination.requests import Request
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)


class Desk:
    """Takes requests from any number of connections of one event loop. Nothing is stored: it begins with no group."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._coordinator = Coordinator(lambda: str(uuid.uuid4()), settings)
        self._coordinator.elect()
        self._coordinator.load((), {}, 0)
        self._handles = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def ask(self, make: Callable[[int], Request]) -> Answer:
        """The answer, which may take as long as a rebalance. make: the request for a handle."""
        loop = asyncio.get_running_loop()
        handle = next(self._handles)
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting[handle] = future
        try:
            self._carry_out(self._coordinator.handle(make(handle), _now()))
            return await future
        finally:
            self._waiting.pop(handle, None)

    def close(self) -> None:
        """No timer fires any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._carry_out(self._coordinator.tick(_now()))

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Reply(to, answer):
                    future = self._waiting.get(to)
                    if future is not None and not future.done():
                        future.set_result(answer)
                case Moved():
                    logger.info(
                        "group %s: %s, generation %s: %s",
                        effect.group, effect.state.value, effect.generation, effect.why.value,
                    )  # fmt: skip
                case _:
                    pass  # what another shell writes, this one has in the coordinator's memory
        self.close()
        deadline = self._coordinator.next_deadline()
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline / 1000, self._tick)


def _now() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
