"""The mark of tests that need promtool."""

from __future__ import annotations

import shutil

import pytest

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is not installed (Debian's package of Prometheus has it)",
)
