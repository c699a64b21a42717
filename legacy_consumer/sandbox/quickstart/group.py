"""Constants that the members and their observers share."""

from __future__ import annotations

GROUP = "quickstart"
SESSION_TIMEOUT_MS = 4000
COMMIT_INTERVAL_MS = 1000
