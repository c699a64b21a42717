"""The simulation notices broken code: a checker that notices nothing proves nothing.

The tests run a sample of the mutants; `make mutants` runs all of them, which takes minutes.
"""

import pytest

from tests.simulation.mutation import StalePatchError, all_patches, apply_patch, caught_by, patched_files, run_mutant
from tests.simulation.running import DEFAULT_SEEDS
from tests.support.named_proofs import TESTS, proofs_of, tables_of, text_of

SAMPLE = ("in-hand-is-consumed", "release-before-commit", "gate-left-open")


def test_there_are_at_least_ten_mutants_and_each_says_what_it_breaks():
    patches = all_patches()
    assert len(patches) >= 10
    assert [patch.stem for patch in patches if not patch.read_text().partition("\n")[0].strip()] == []


def test_the_document_names_the_mutants_that_no_seed_of_make_test_finds_and_the_tests_that_do():
    [table] = tables_of(text_of("testing.md").partition("## Mutants\n")[2].partition("\n## ")[0])
    rare = {name: by for name, by in caught_by().items() if isinstance(by, int) and by >= DEFAULT_SEEDS}
    assert [proofs_of(mutant) for mutant, _ in table] == [[name] for name in sorted(rare)]
    assert all(proof in TESTS for _, test in table for proof in proofs_of(test))
    assert max(rare.values()) < 1_000_000


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
