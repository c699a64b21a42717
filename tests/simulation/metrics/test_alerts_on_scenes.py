"""Alert rules and the dashboard's queries, which promtool runs over the scrapes of scenes."""

from __future__ import annotations

import json
import re

import yaml

from legacy_consumer.operations.metrics.catalogue import METRICS
from tests.simulation.metrics.alert_stories import (
    EVERY_S,
    FIRES_IN,
    a_member_crashes_over_a_message,
    caught_up,
    healthy,
)
from tests.simulation.metrics.comparison import Comparison
from tests.simulation.metrics.prometheus import ROOT, RULES, Recording, ask
from tests.support.promtool import needs_promtool

ALERTS = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
DASHBOARD = (ROOT / "deploy/observe/dashboard.json").read_text()
QUERIES = {target["expr"] for panel in json.loads(DASHBOARD)["panels"] for target in panel.get("targets", ())}
NAMES = {name for metric in METRICS for name in (metric.name, f"{metric.name}_bucket")}


def named_in(texts):
    return NAMES & set(re.findall(r"legacy_consumer_\w+", " ".join(texts)))


def record(story, wanted, *judges):
    recording = Recording(wanted)
    story([recording, *judges]).end()
    return recording


def test_every_alert_has_a_story():
    assert sorted(FIRES_IN) == sorted(ALERTS)


@needs_promtool
def test_no_alert_fires_where_all_is_well_and_the_dashboard_shows_it(tmp_path):
    queries = {query.replace("$group", "g") for query in QUERIES}
    wanted = named_in([RULES.read_text(), DASHBOARD])
    recordings = {"healthy": record(healthy, wanted)}
    recordings.update((f"commits_{s}", record(caught_up(s), wanted)) for s in (29, 59))
    fired, answered = ask(recordings, tmp_path, every_s=EVERY_S, alerts=ALERTS, queries=sorted(queries))
    assert fired == {name: {} for name in recordings}
    # a query for trouble has no result here
    quiet = {query for query in queries - answered if not re.search("> 0$|== 1$", query)}
    assert quiet == set()


@needs_promtool
def test_a_member_that_crashes_before_its_first_commit_raises_an_alert(tmp_path):
    recordings = {"crashes": record(a_member_crashes_over_a_message(committed=False), named_in([RULES.read_text()]))}
    fired, _ = ask(recordings, tmp_path, every_s=EVERY_S, alerts=ALERTS)
    assert "ConsumerGroupDoesNotMove" in fired["crashes"]


@needs_promtool
def test_each_alert_fires_in_the_story_that_it_is_for(tmp_path):
    wanted = named_in([RULES.read_text()])
    recordings = {story.__name__: record(story, wanted) for story in dict.fromkeys(FIRES_IN.values())}
    fired, _ = ask(recordings, tmp_path, every_s=EVERY_S, alerts=ALERTS)
    silent = [alert for alert, story in FIRES_IN.items() if alert not in fired[story.__name__]]
    assert not silent
    said = [text for alerts in fired.values() for texts in alerts.values() for text in texts]
    assert not [text for text in said if re.search("no value|error calling|NaN", text)]


def test_metrics_of_a_healthy_group_are_true_and_raise_no_alert():
    recording = record(healthy, {"legacy_consumer_group_verdict"}, Comparison())
    seen = {verdict for one in recording.series() for verdict in re.findall('verdict="(\\w+)"', one["series"])}
    assert "ok" in seen
    # the group is in error for a moment, when all sessions have ended
    assert "warning" not in seen
