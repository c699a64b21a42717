"""Metrics and health of members, and of all groups of a cluster, for Prometheus. docs/metrics.md lists the names.

>>> from legacy_consumer import metrics
>>> server = metrics.serve(connector, port=9308)  # doctest: +SKIP
>>> REGISTRY.register(metrics.MemberCollector([connector]))  # doctest: +SKIP
"""

from __future__ import annotations

from legacy_consumer.operations.metrics.health import Judgement, judge_liveness, judge_readiness
from legacy_consumer.operations.metrics.http_server import MetricsServer
from legacy_consumer.operations.metrics.member_collector import MemberCollector
from legacy_consumer.operations.metrics.serving import serve

__all__ = ["Judgement", "MemberCollector", "MetricsServer", "judge_liveness", "judge_readiness", "serve"]
