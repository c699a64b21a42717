"""What unit tests have beside them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def _begun_early(request):
    """What takes long on a processor of its own begins with the first test, if a later one waits for its outcome."""
    if any("fuzzer" in item.fixturenames for item in request.session.items):
        request.getfixturevalue("fuzzer")


@pytest.fixture(scope="session")
def fuzzer(tmp_path_factory):
    """The coverage-guided fuzzer of the record decoders at work for 20 s; what it says goes to a file: see said."""
    folder = tmp_path_factory.mktemp("fuzzer")
    corpus = folder / "corpus"
    corpus.mkdir()
    options = ("-max_total_time=20", "-timeout=20", f"-artifact_prefix={folder}/")
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.record_fuzz", *options, str(corpus)],
            cwd=ROOT,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    process.said = folder / "said"
    yield process
    process.kill()
    process.wait()
