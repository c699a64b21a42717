"""Every deployed package is pinned with hashes, and the bill of materials names it."""

from __future__ import annotations

import importlib.metadata
import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.bill_of_materials import PACKAGE, ROOT, deployed, differences, pinned_entries

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def bill(components, name=PACKAGE):
    return {
        "metadata": {"component": {"name": name}},
        "components": [{"name": name, "version": version} for name, version in components.items()],
    }


def asked_for(extras, python):
    """Return what the package's metadata, as in its wheel, requires with these extras and the extras that they name."""
    found, todo = set(), {"", *extras}
    done = set()
    while todo:
        extra = todo.pop()
        done.add(extra)
        for text in importlib.metadata.requires(PACKAGE):
            one = Requirement(text)
            where = {"extra": extra, "python_version": python, "python_full_version": f"{python}.2"}
            if one.marker is not None and not one.marker.evaluate(where):
                continue
            if canonicalize_name(one.name) == PACKAGE:
                todo |= one.extras - done
            else:
                found.add(one)
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_all_that_the_wheel_asks_for_is_pinned_as_it_asks_for_it(python):
    pins = deployed(python)
    wanted = asked_for({"deploy"}, python)
    assert len(wanted) > 10
    wrong = [str(one) for one in wanted if not one.specifier.contains(pins.get(canonicalize_name(one.name), "0"))]
    assert not wrong, "make pins"


def test_every_pin_is_of_one_version_and_has_hashes():
    for one, hashes in pinned_entries().items():
        assert re.fullmatch(r"==[\w.]+", str(one.specifier)), one
        assert hashes, one
        assert len(set(hashes)) == len(hashes), one


def test_no_package_is_pinned_twice_for_one_python():
    for python in PYTHONS:
        found = [
            canonicalize_name(one.name)
            for one in pinned_entries()
            if one.marker is None
            or one.marker.evaluate({"python_version": python, "python_full_version": f"{python}.2"})
        ]
        assert len(found) == len(set(found))


def test_a_bill_that_names_what_is_deployed_is_taken():
    assert not list(differences(bill(deployed()), deployed()))
    assert not list(differences(bill({**deployed(), "Legacy_Consumer": "0.1.0"}), deployed()))


def test_a_bill_that_leaves_out_adds_or_misnames_a_package_is_refused():
    wanted = deployed()
    short = {name: version for name, version in wanted.items() if name != "kazoo"}
    [said] = differences(bill(short), wanted)
    assert said == f"kazoo: the bill has nothing, deployed is {wanted['kazoo']}"
    [said] = differences(bill({**wanted, "left-pad": "1.0"}), wanted)
    assert said == "left-pad: the bill has 1.0, deployed is nothing"
    [said] = differences(bill({**wanted, "kazoo": "0.1"}), wanted)
    assert said == f"kazoo: the bill has 0.1, deployed is {wanted['kazoo']}"
    assert list(differences(bill(wanted, name="another"), wanted)) == [f"it is not the bill of {PACKAGE}"]


def test_a_bill_is_compared_when_it_is_made():
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nsbom:")[2].partition("\n\n")[0]
    assert rule.rstrip().endswith("-m tests.support.bill_of_materials dist/legacy-consumer.cdx.json")
    assert "--require-hashes -r requirements-deploy.txt" in rule
