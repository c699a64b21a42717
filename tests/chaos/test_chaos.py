"""A short list of faults against a group on real servers: it loses nothing, and no member hands out another's messages.

`make chaos` draws faults for longer. After a failure, run it again with its seed and --history, and read the history,
the members' logs and the picture; docs/chaos.md says how.
"""

from xml.etree import ElementTree as ET

import pytest

from tests.chaos.faults import BACKLOG, SHORT
from tests.chaos.history import load_history
from tests.chaos.running import run_chaos, write_results
from tests.chaos.world import BOTH, FETCHERS

pytestmark = [pytest.mark.kafka, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(420)]

SEED = 20
KAFKA = "2.8.2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("chaos")


@pytest.fixture(scope="module")
def figures(folder):
    return run_chaos(folder, SEED, fetchers=BOTH, transactions=False, led=False, kafka=KAFKA)


def test_group_keeps_its_promises_through_a_list_of_faults(figures):
    violations = "\n".join(figures["violations"][:10])
    assert not figures["violations"], (
        f"python -m tests.chaos --seed {SEED} --fetcher {BOTH} --no-transactions --no-led --kafka {KAFKA} "
        "--history FOLDER\n"
        f"{violations}"
    )


def test_every_fault_struck_and_forced_something(figures):
    struck = {fault["fault"] for fault in figures["faults"]}
    assert struck >= {name for names in SHORT for name in names}
    assert figures["fetchers"] == sorted(FETCHERS[BOTH])
    assert figures["acknowledged"] > 2 * BACKLOG, "two members were to be frozen in the midst of what was produced"
    assert figures["sessions_expired"] > 0, "nobody lost a session: nobody was cut off or frozen for long enough"
    assert figures["duplicates"] > 0, "no forced hand-over left anything uncommitted"
    assert figures["skipped_by_operator"] > 0, "the operator's reset forward skipped nothing"
    assert (figures["threads_died"], figures["told_to_end"]) == (1, 1)
    assert figures["interrupts"] > 0
    assert figures["pauses"] > 0
    assert figures["moves"].keys() == {"operator", "user"}


def test_picture_of_the_run_names_every_fault(figures, folder):
    write_results(folder, figures, folder / "figures.json", folder / "picture.svg")
    picture = ET.parse(folder / "picture.svg").getroot()
    titles = [found.text for found in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert all(any(fault["fault"] in title for title in titles) for fault in figures["faults"])
    assert len(load_history(folder)) > 1000
