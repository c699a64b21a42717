"""The dashboard, the alert rules and docs/metrics.md name every metric that exists, and no other."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from legacy_consumer.operations.metrics.catalogue import METRICS, Kind
from tests.support.promql import PromqlError, names_in
from tests.support.promtool import needs_promtool

ROOT = Path(__file__).parents[5]
DASHBOARD = json.loads((ROOT / "deploy/observe/dashboard.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy/observe/alerts.yml").read_text())
FROM_PROMETHEUS = {"instance", "job", "le"}
"""Labels that Prometheus and its format add."""


def series():
    """Return {name of a scraped series: its labels}."""
    # Prometheus itself writes `up` for each target
    found = {"up": {"job", "instance"}}
    for metric in METRICS:
        names = [metric.name]
        if metric.kind is Kind.HISTOGRAM:
            names = [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
        found.update(dict.fromkeys(names, set(metric.labels) | FROM_PROMETHEUS))
    return found


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def rules():
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


EXPRESSIONS = [
    *((f"panel {p['title']}", t["expr"].replace("$group", "g")) for p in panels() for t in p["targets"]),
    *((f"alert {rule['alert']}", rule["expr"]) for rule in rules()),
]


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_an_expression_is_valid_and_names_existing_metrics(where, expression):
    known = series()
    named = names_in(expression)
    assert named, f"{where} shows nothing"
    assert {metric for metric in named if metric not in known} == set()
    assert {metric: labels - known[metric] for metric, labels in named.items() if labels - known[metric]} == {}


@pytest.mark.parametrize(
    "broken",
    [
        "sum(legacy_consumer_group_lag",
        "rate(legacy_consumer_member_commits_total)",
        "legacy_consumer_group_lag[5m]",
        "legacy_consumer_group_lag >",
        "summ(legacy_consumer_group_lag)",
        "legacy_consumer_group_lag{group=g}",
        "topk(legacy_consumer_group_lag)",
        "legacy_consumer_group_lag legacy_consumer_group_lag",
        "rate(x[5m]) ?",
    ],
)
def test_a_broken_expression_is_found(broken):
    with pytest.raises(PromqlError):
        names_in(broken)


def test_every_metric_of_groups_and_members_is_looked_at_by_a_panel_or_a_rule():
    named = set().union(*(names_in(expression) for _, expression in EXPRESSIONS))
    unseen = {metric.name for metric in METRICS if not {metric.name, f"{metric.name}_bucket"} & named}
    # these are for tables, and for a user's own queries
    assert unseen <= {
        "legacy_consumer_group_partitions",
        "legacy_consumer_group_partition_owned",
        "legacy_consumer_group_member_brokers",
        "legacy_consumer_group_coordination",
        "legacy_consumer_group_generation",
        "legacy_consumer_group_has_leader",
        "legacy_consumer_group_led_state",
        "legacy_consumer_exporter_partitions",
        "legacy_consumer_exporter_page_bytes",
        "legacy_consumer_exporter_refreshes_total",
        "legacy_consumer_member_connected",
        "legacy_consumer_member_coordination",
        "legacy_consumer_member_generation",
        "legacy_consumer_member_group_state",
        "legacy_consumer_member_leads",
        "legacy_consumer_member_led_state",
        "legacy_consumer_member_lag_age_seconds",
        "legacy_consumer_member_settled_timestamp_seconds",
        "legacy_consumer_member_consumed_offset",
        "legacy_consumer_member_committed_offset",
        "legacy_consumer_member_log_end_offset",
        "legacy_consumer_member_committed_messages_total",
    }


def test_every_alert_has_a_severity_and_a_summary():
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 10
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule
        assert rule["annotations"]["summary"], rule
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s")), rule
        text = " ".join(rule["annotations"].values())
        asked = set(re.findall(r"\$labels\.(\w+)", text))
        given = set().union(*(series()[metric] for metric in names_in(rule["expr"])))
        assert asked <= given, rule


def test_the_dashboard_is_one_that_grafana_takes():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)\}?", json.dumps(DASHBOARD["panels"]))) <= variables
    places = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places)), "panels lie over each other"
    assert max(x for x, _ in places) < 24
    assert all(panel["description"] and panel["targets"] for panel in panels())
    query = next(one for one in DASHBOARD["templating"]["list"] if one["name"] == "group")["query"]["query"]
    assert names_in(query.replace("label_values(", "absent(").replace(", group)", ")")).keys() <= series().keys()


G, M, E = "legacy_consumer_group_", "legacy_consumer_member_", "legacy_consumer_exporter_"
FIRES = {
    "ConsumerGroupStopped": ({G + "verdict_partitions": {"verdict": "stop"}}, "0x50", "2x50"),
    "ConsumerGroupStalled": ({G + "verdict_partitions": {"verdict": "stall"}}, "0x50", "2x50"),
    "ConsumerGroupDoesNotMove": (
        {G + "verdict_partitions": {"verdict": "unknown"}, G + "unowned_partitions": {}},
        "0x50",
        "2x50",
    ),
    "ConsumerGroupFallsBehind": ({G + "verdict_partitions": {"verdict": "warning"}}, "0x50", "2x50"),
    "ConsumerGroupOffsetWentBack": ({G + "verdict_partitions": {"verdict": "rewind"}}, "0x50", "2x50"),
    "ConsumerGroupOffsetWrong": ({G + "verdict_partitions": {"verdict": "error"}}, "0x50", "2x50"),
    "ConsumerGroupLagUnknown": (
        {G + "verdict_partitions": {"verdict": "unknown"}, G + "partition_committed_timestamp_seconds": {}},
        "0x20 2x10 0x19",
        "2x50",
    ),
    "ConsumerGroupLogEndsMissing": ({E + "unknown_log_ends": {}}, "0x20 2x10 0x19", "2x50"),
    "ConsumerGroupPartitionsUnowned": ({G + "unowned_partitions": {}, G + "members": {}}, "0x50", "2x50"),
    "ConsumerGroupForbidden": ({G + "verdict": {"verdict": "error"}}, "0x50", "1x50"),
    "ConsumerGroupUnreadableMember": ({G + "unreadable_members": {}}, "0x50", "2x50"),
    "ConsumerGroupLostAllMembers": ({G + "members": {}}, "2x50", "2x20 0x29"),
    "ConsumerGroupExporterBlind": ({E + "up": {"source": "brokers"}}, "1x50", "1x20 0x29"),
    "ConsumerGroupDataOld": ({E + "data_age_seconds": {"source": "brokers"}}, "30x50", "600x50"),
    "ConsumerGroupExporterGone": ({E + "info": {}}, None, "1x20 _x29"),
    "ConsumerMemberNotAlive": ({M + "alive": {}}, "1x50", "1x20 0x29"),
    "ConsumerMemberDegraded": ({M + "phase": {"phase": "degraded"}}, "0x50", "0x20 1x29"),
    # the well member: a rolling restart of twelve members, half a minute each
    "ConsumerMemberRebalancesAllTheTime": (
        {M + "rebalances_total": {"outcome": "moved"}},
        "3x30 4+4x5 24x14",
        "0+1x50",
    ),
    "ConsumerMemberCutOff": ({M + "leased": {}}, "1x40 0 1x9", "1x40 0x9"),
    "ConsumerMemberStuck": ({M + "unasked_seconds": {}}, "300x20 0x10 500x19", "0x20 0+60x30"),
    "ConsumerMemberHeld": ({M + "held_partitions": {}}, "0x40 2 0x9", "0x48 2x9"),
    "ConsumerGroupLostMember": ({G + "members": {}}, "11x20 12x10 11 12x19", "12x30 11x20"),
    "ConsumerMemberCommitsFail": ({M + "commits_total": {"outcome": "failed"}}, "3x50", "0+1x50"),
    "ConsumerMemberSessionsExpire": ({M + "session_events_total": {"event": "expired"}}, "3x50", "0+1x50"),
    "ConsumerMemberForeignCommits": ({M + "foreign_commits_total": {}}, "3x50", "0+1x50"),
}
"""{alert: ({metric: labels}, the values where all is well, the values where not)}, one value a minute."""


def sample(metric, given, who, values):
    known = (series()[metric] | {"instance"}) - {"job", "le"} | given.keys()
    labels = ",".join(f'{label}="{given.get(label, who)}"' for label in sorted(known))
    return {"series": f"{metric}{{{labels}}}", "values": values}


def firing(alert, folder, scene=None, **shared):
    """Return [(the instance that an alert names after 50 minutes, its annotations)], as promtool prints them.

    shared: labels that the sick and the well have in common.
    """
    metrics, well, sick = scene or FIRES[alert]
    scraped = [
        sample(metric, shared | labels, who, values)
        for metric, labels in metrics.items()
        for who, values in (("well", well), ("sick", sick))
        if values is not None
    ]
    return fired(alert, folder, scraped)


def fired(alert, folder, scraped):
    expected = [{"eval_time": "50m", "alertname": alert, "exp_alerts": []}]
    document = {
        "rule_files": [str(ROOT / "deploy/observe/alerts.yml")],
        "tests": [{"interval": "1m", "input_series": scraped, "alert_rule_test": expected}],
    }
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60)
    printed = (done.stdout + done.stderr).partition("got:[")[2]
    found = re.findall(r"Labels:\{(.*)\}\s+Annotations:\{(.*)\}", printed)
    return [((re.search("sick|well", labels) or ["all"])[0], says) for labels, says in found]


@needs_promtool
def test_promtool_takes_the_rules():
    done = subprocess.run(
        ["promtool", "check", "rules", ROOT / "deploy/observe/alerts.yml"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("alert", sorted(FIRES))
def test_an_alert_fires_for_the_sick_and_not_for_the_well(alert, tmp_path):
    [(who, says)] = firing(alert, tmp_path)
    assert who == ("all" if alert == "ConsumerGroupExporterGone" else "sick")
    assert not re.search("well|no value|error", says), says


ABOUT_GROUPS = [rule["alert"] for rule in ALERTS["groups"][0]["rules"]]


@needs_promtool
@pytest.mark.parametrize("alert", ABOUT_GROUPS)
def test_an_alert_fires_for_the_cluster_of_the_sick_group_and_not_for_a_well_one_of_the_same_name(alert, tmp_path):
    [(who, _)] = firing(alert, tmp_path, group="billing")
    assert who == "sick"


@needs_promtool
@pytest.mark.parametrize("alert", ABOUT_GROUPS)
def test_a_group_that_is_idle_in_a_standby_cluster_and_well_in_the_active_one_raises_no_alert(alert, tmp_path):
    scraped = [
        sample(G + name, {"group": "billing", **labels}, cluster, f"{value}x50")
        for cluster, verdict, members, unowned in (("active", "ok", 3, 0), ("standby", "ok", 0, 8))
        for name, labels, value in (
            ("members", {}, members),
            ("unowned_partitions", {}, unowned),
            ("verdict", {"verdict": verdict}, 1),
            ("verdict_partitions", {"verdict": verdict}, 8),
        )
    ]
    assert fired(alert, tmp_path, scraped) == []


@needs_promtool
def test_a_group_that_an_acl_closes_raises_an_alert_though_its_name_is_readable_in_another_cluster(tmp_path):
    billing = {"group": "billing"}
    scraped = [
        sample(G + "verdict", {**billing, "verdict": "error"}, "sick", "1x50"),
        sample(G + "members", billing, "well", "3x50"),
    ]
    [(who, _)] = fired("ConsumerGroupForbidden", tmp_path, scraped)
    assert who == "sick"


def test_the_alerts_that_need_metrics_of_partitions_are_documented():
    need = {rule["alert"] for rule in rules() if any(G + "partition_" in name for name in names_in(rule["expr"]))}
    text = (ROOT / "docs/metrics.md").read_text()
    assert need == set(re.findall(r"With `--no-partitions`, (\w+) cannot fire", text))


@needs_promtool
def test_one_silent_exporter_of_several_raises_an_alert(tmp_path):
    scene = ({"up": {"job": "consumer-groups"}, E + "info": {}}, "1x50", "1x20 0x29")
    [(who, says)] = firing("ConsumerGroupExporterGone", tmp_path, scene)
    assert (who, "answers at sick" in says) == ("sick", True)


@needs_promtool
def test_a_group_that_has_committed_nothing_in_zookeeper_raises_no_alert_about_its_lag(tmp_path):
    elsewhere = ({G + "verdict_partitions": {"verdict": "unknown"}, G + "unowned_partitions": {}}, "0x50", "2x50")
    assert firing("ConsumerGroupLagUnknown", tmp_path, elsewhere) == []


def test_every_alert_is_made_to_fire():
    assert set(FIRES) == {rule["alert"] for rule in rules()}


def test_metrics_are_documented_and_documented_ones_exist():
    text = (ROOT / "docs/metrics.md").read_text()
    cell = r" ([^|]*) \|"
    rows = re.findall(rf"^\| `(legacy_consumer_\w+)` \| (\w+) \|{cell}{cell}{cell}$", text, re.MULTILINE)
    documented = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning, absent)
        for name, kind, labels, meaning, absent in rows
    }
    assert documented == {
        metric.name: (metric.kind.value, metric.labels, metric.meaning, metric.absent) for metric in METRICS
    }
    assert len(rows) == len(documented)
    assert set(re.findall(r"legacy_consumer_[a-z_]+[a-z]", text)) - series().keys() - documented.keys() == set()


def test_names_and_types_keep_to_prometheus_rules():
    for metric in METRICS:
        assert metric.name.endswith("_total") is (metric.kind is Kind.COUNTER), metric
        assert re.fullmatch(r"[a-z][a-z_]+[a-z]", metric.name), metric
        assert not {"le", "quantile", "__name__"} & set(metric.labels), metric
