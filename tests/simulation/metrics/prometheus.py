"""Scraped metrics of scenes as input for `promtool test rules`, and promtool's results."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy/observe/alerts.yml"


class Recording:
    """A judge that keeps every sample of a scene. wanted: names of metrics to keep."""

    def __init__(self, wanted):
        self._wanted = wanted
        self._pages = []

    def __call__(self, scene, look, pages):
        self._pages.append(
            {
                (name, (*labels, ("instance", instance))): value
                for instance, page in pages.items()
                for (name, labels), value in page.items()
                if name in self._wanted
            }
        )

    def series(self):
        """Return promtool's input_series."""
        names = dict.fromkeys(key for page in self._pages for key in page)
        return [
            {
                "series": f"{name}{{{','.join(f'{label}={_quoted(value)}' for label, value in labels)}}}",
                "values": " ".join(_values([page.get((name, labels)) for page in self._pages])),
            }
            for name, labels in names
        ]

    def __len__(self):
        return len(self._pages)


def _quoted(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _values(values):
    """Yield promtool's values; the first scrape without the series gives "stale", the others "_"."""
    for before, value in zip([None, *values], values, strict=False):
        if value is None:
            yield "_" if before is None else "stale"
        else:
            yield f"{value:.3f}" if value % 1 else f"{value:.0f}"


def ask(recordings, folder, *, every_s, alerts=(), queries=()):
    """Return the alerts that fire, and the queries with a result: ({scene: {alert: [when, its text]}}, {query}).

    recordings: {scene: Recording}. Alerts are looked at once a minute, queries once in five.
    """
    tests = []
    for name, recording in recordings.items():
        minutes = range(1, int(len(recording) * every_s // 60))
        tests.append(
            {
                "name": name,
                "interval": f"{every_s:g}s",
                "input_series": recording.series(),
                "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []}
                    for alert in alerts
                    for minute in minutes
                ],
                "promql_expr_test": [
                    {"eval_time": f"{minute}m", "expr": query, "exp_samples": []}
                    for query in queries
                    for minute in minutes[::5]
                ],
            }
        )
    file = folder / "scenes.yml"
    # JSON is valid YAML, and faster to write
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=110)
    return _read(done.stdout + done.stderr, recordings)


def _read(printed, recordings):
    fired, answered, scene = {name: {} for name in recordings}, set(), None
    assert "FAILED" in printed, f"promtool found nothing at all: {printed[:2000]}"
    for line in printed.splitlines():
        text = line.strip()
        if text.startswith("name: ") and text[6:].rstrip(",") in recordings:
            scene = text[6:].rstrip(",")
        elif match := re.match(r"alertname: (\w+), time: (\S+?),", text):
            alert, at = match.groups()
        elif text.startswith("Annotations:"):
            # the tests expect no alert, so every annotation is of an alert that fired
            fired[scene].setdefault(alert, []).append(f"{at}: {text}")
        elif match := re.match(r'expr: "(.*)", time: \S+,$', text):
            answered.add(match[1].replace('\\"', '"'))
    return fired, answered
