"""The mutants of the message path; `make mutants` shows that the tests beside this one notice each of them."""

import pytest

from tests.simulation.mutation import patched_files
from tests.unit.legacy_consumer.fetching.columnar.mutants.__main__ import all_patches


@pytest.mark.parametrize("patch", all_patches(), ids=lambda patch: patch.stem)
def test_every_mutant_still_breaks_code_that_is_there(patch):
    assert patch.read_text().partition("\n")[0].strip()
    for path, text in patched_files(patch).items():
        assert text != path.read_text()
        if path.suffix == ".py":
            compile(text, path, "exec")
