"""The metrics that members and an exporter give Prometheus, as {(name, labels): value}."""

from __future__ import annotations

import re

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def collected(collector):
    """Return the samples that a registry would get from the collector."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def exported(exporter):
    """From the text that it serves; unit tests read that with the client library's parser, which takes its time."""
    text = b"".join(exporter.page(False).parts).decode()
    return {
        (name, tuple(sorted(_LABEL.findall(labels)))): float(value) for name, labels, value in _SAMPLE.findall(text)
    }
