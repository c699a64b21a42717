"""The metrics that Prometheus gets from members and an exporter, as {(name, labels): value}."""

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
    """Return the samples in the text that an exporter serves, without the client library's parser, which is slow."""
    text = b"".join(exporter.page(False).parts).decode()
    return {
        (name, tuple(sorted(_LABEL.findall(labels)))): float(value) for name, labels, value in _SAMPLE.findall(text)
    }
