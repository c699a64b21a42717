"""Serves the metrics and the health of this process' members."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from legacy_consumer.member.connector import ConsumerConnector
from legacy_consumer.operations.metrics.health import Judgement, judge_liveness, judge_readiness
from legacy_consumer.operations.metrics.http_server import MetricsServer, Page, Pages
from legacy_consumer.operations.metrics.member_collector import MemberCollector


def serve(
    connectors: ConsumerConnector | Sequence[ConsumerConnector],
    port: int,
    *,
    host: str = "127.0.0.1",
    registry: CollectorRegistry | None = None,
) -> MetricsServer:
    """Serve /metrics, /healthz and /readyz of these members until the last of them is shut down.

    port 0: any free port, see the server's port. host: 0.0.0.0 for all addresses, as in a container. registry: your
    own, with other metrics; the members are registered in it while they are served, and no other members may be. The
    default has the metrics of the process. Health and readiness cover all members.
    Raises: MetricsServerError; ValueError if members are registered in this registry. Then nothing is served.
    """
    members = [connectors] if isinstance(connectors, ConsumerConnector) else list(connectors)
    if registry is None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
    collector = MemberCollector(members)
    server = MetricsServer(_pages(members, registry), port=port, host=host)
    open_members = set(map(id, members))

    def end() -> None:
        server.close()
        with contextlib.suppress(KeyError):  # at the second call the collector is not registered any more
            registry.unregister(collector)

    def note_closed(member: ConsumerConnector) -> Callable[[], None]:
        def close() -> None:
            open_members.discard(id(member))
            if not open_members:
                end()

        return close

    registry.register(collector)
    try:
        server.start()
        for member in members:
            member.at_shutdown(note_closed(member))
    except BaseException:
        end()
        raise
    return server


def _pages(members: Sequence[ConsumerConnector], registry: CollectorRegistry) -> Pages:
    def metrics(takes_gzip: bool) -> Page:
        text = generate_latest(registry)
        return Page((gzip.compress(text, 1),), "gzip") if takes_gzip else Page((text,))

    return Pages(
        metrics,
        lambda: _all((member.consumer_id, judge_liveness(member.status, member.vitals)) for member in members),
        lambda: _all((member.consumer_id, judge_readiness(member.status, member.vitals)) for member in members),
    )


def _all(judged: Iterable[tuple[str, Judgement]]) -> Judgement:
    found = list(judged)
    return Judgement(
        all(judgement.holds for _, judgement in found), "; ".join(f"{name}: {j.text}" for name, j in found)
    )
