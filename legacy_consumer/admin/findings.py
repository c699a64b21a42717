"""What an examination finds: how bad it is, what it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """From the worst to the best."""

    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """Something will not work, or not as its users believe."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing. code: a word for programs. subject: what it is about. advice: what to do."""

    severity: Severity
    code: str
    subject: str
    text: str
    advice: str


def sort_findings(findings: list[Finding]) -> list[Finding]:
    """The worst first, otherwise in the order found."""
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))
