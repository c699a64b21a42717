"""python -m tests.support.bill_of_materials FILE: check a bill of materials (CycloneDX) against the deployed packages.

The deployed packages are pinned in requirements-deploy.txt; the package's own requirements ask for them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGE = "legacy-consumer"
PINS = ROOT / "requirements-deploy.txt"
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


def pinned_entries(text=None):
    """Return {requirement: its hashes} of the pins."""
    text = PINS.read_text(encoding="utf-8") if text is None else text
    entries = re.split(r"\n(?=\w)", re.sub(r"(?m)^#.*\n", "", text).strip())
    return {Requirement(entry.partition("--hash")[0].rstrip(" \\\n")): HASH.findall(entry) for entry in entries}


def deployed(python=None):
    """Return {package: version} for a Python such as "3.11", by default the running one."""
    python = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    return {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==")
        for one in pinned_entries()
        if one.marker is None or one.marker.evaluate({"python_version": python, "python_full_version": f"{python}.2"})
    }


def differences(bill, wanted):
    """Yield a line for each package that the bill lacks, adds, or has in another version."""
    told = {canonicalize_name(one["name"]): one.get("version") for one in bill.get("components", [])}
    if canonicalize_name(bill.get("metadata", {}).get("component", {}).get("name", "")) != PACKAGE:
        yield f"it is not the bill of {PACKAGE}"
    # the package itself may be among the components, too
    told.pop(PACKAGE, None)
    for name in sorted(told.keys() | wanted.keys()):
        if told.get(name) != wanted.get(name):
            yield f"{name}: the bill has {told.get(name, 'nothing')}, deployed is {wanted.get(name, 'nothing')}"


def main():
    found = list(differences(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), deployed()))
    print("\n".join(found) or f"{sys.argv[1]} names the {len(deployed())} packages that are deployed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
