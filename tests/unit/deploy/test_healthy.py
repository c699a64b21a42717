"""The health check of the containers, as Docker runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

HEALTHY = Path(__file__).parents[3] / "deploy" / "docker" / "healthy"


@pytest.mark.parametrize("health", ["tcp:", "tcp:abc", "zookeeper:abc", "http:", "http:abc/healthz", "nonsense"])
def test_a_setting_that_names_no_port_is_one_line_that_says_what_to_write(health):
    asked = [sys.executable, "-IS", str(HEALTHY)]
    told = subprocess.run(asked, env={"HEALTH": health}, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (1, "")
    assert told.stdout == f"HEALTH='{health}' is not zookeeper[:PORT], tcp:PORT or http:PORT/PATH\n"
