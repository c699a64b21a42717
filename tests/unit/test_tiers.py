from pathlib import Path

import pytest

from tests.support.tiers import MARKERS_OF_TIER, NEEDS, SERVER_MARKERS, TierResult, java_problem, tier_of

TESTS = Path("project", "tests")


@pytest.mark.parametrize(
    ("path", "tier"),
    [
        ("unit/zk_layout/test_paths.py", "unit"),
        ("interop/test_shared_group.py", "interop"),
        ("test_at_the_top.py", "unit"),
        ("support/test_helper.py", "unit"),
    ],
)
def test_tier_is_the_folder_under_tests(path, tier):
    assert tier_of(TESTS / path, TESTS) == tier


def test_missing_java_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "install Java 17" in java_problem.__wrapped__()


def test_every_marker_of_a_folder_says_what_it_needs():
    assert {marker for markers in MARKERS_OF_TIER.values() for marker in markers} <= SERVER_MARKERS
    assert set(NEEDS) == SERVER_MARKERS


def test_a_tier_that_lacked_something_says_what_and_for_how_many_tests():
    result = TierResult(seconds=1.25)
    result.outcomes.update(passed=3, skipped=2)
    result.missing.update({"no java on PATH": 2})
    assert result.line("contract").split("\n") == [
        "contract     3 passed, 2 skipped                          1.2 s",
        "             skipped 2: no java on PATH",
    ]
