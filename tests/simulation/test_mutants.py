"""The simulation notices when the code is broken: a checker that catches nothing proves nothing.

A sample; `make mutants` breaks the code in every way there is a patch for, which takes minutes.
"""

import pytest

from tests.simulation.mutation import StalePatchError, all_patches, apply_patch, patched_files, run_mutant

SAMPLE = ("in-hand-is-consumed", "release-before-commit", "gate-left-open")


def test_there_are_at_least_ten_mutants_and_each_says_what_it_breaks():
    patches = all_patches()
    assert len(patches) >= 10
    assert [patch.stem for patch in patches if not patch.read_text().partition("\n")[0].strip()] == []


@pytest.mark.parametrize("patch", all_patches(), ids=lambda p: p.stem)
def test_every_mutant_still_breaks_code_that_is_there(patch):
    changed = patched_files(patch)
    assert changed
    for path, text in changed.items():
        assert text != path.read_text()
        compile(text, path, "exec")


@pytest.mark.parametrize("patch", [patch for patch in all_patches() if patch.stem in SAMPLE], ids=lambda p: p.stem)
def test_a_mutant_that_breaks_much_is_caught_at_once(patch):
    caught = run_mutant(patch, seeds=200)
    assert caught.by is not None


def test_a_patch_that_fits_nowhere_is_said_to_be_stale(tmp_path):
    (tmp_path / "code.py").write_text("a = 1\n")
    patch = tmp_path / "change.patch"
    patch.write_text("breaks nothing\n\n--- a/code.py\n+++ b/code.py\n@@ -1 +1 @@\n-b = 1\n+b = 2\n")
    with pytest.raises(StalePatchError, match="found 0 times"):
        apply_patch(patch, tmp_path)
