"""kazoo's private names may change with any release, so each that is used stands in a table with its reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import kazoo
import kazoo.version

from zk_layout import kazoo_client

ROOT = Path(__file__).parents[3]
TABLE = set(re.findall(r"^    (_\w+)  +\S", kazoo_client.__doc__ or "", re.MULTILINE))
KAZOO_FILES = [
    path
    for folder in (".", "protocol", "handlers")
    for path in sorted((Path(kazoo.__file__).parent / folder).glob("*.py"))
]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def names_of_kazoo() -> set[str]:
    """Its private methods, and the private attributes that its objects have."""
    found = set()
    for path in KAZOO_FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.Attribute(attr=name, ctx=ast.Store()) if is_private(name):
                    found.add(name)
    return found


def names_from_kazoo(tree: ast.Module) -> set[str]:
    """What a file imports from it."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in imports if (node.module or "").startswith("kazoo") for alias in node.names}


def private_names_used(text: str) -> Iterator[str]:
    """But for those that a class without a base of kazoo's uses of itself: these are its own."""
    tree = ast.parse(text)
    bases = names_from_kazoo(tree)
    own = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ClassDef)
            and not {base.id for base in node.bases if isinstance(base, ast.Name)} & bases
        ):
            own |= set(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self")) if id(node) in own:
                pass
            case ast.Attribute(attr=name) if is_private(name):
                yield name
            case ast.FunctionDef(name=name) if is_private(name) and id(node) not in own:
                yield name


def used_in_the_project() -> set[str]:
    files = sorted((ROOT / "zk_layout").glob("kazoo_*.py"))
    assert len(files) == 3
    return {name for path in files for name in private_names_used(path.read_text(encoding="utf-8"))}


def test_no_private_name_of_kazoo_is_used_that_the_table_lacks():
    assert used_in_the_project() & names_of_kazoo() == TABLE


def test_a_use_shows_wherever_it_stands():
    text = """
from kazoo.client import KazooClient
class Ours(KazooClient):
    def _call(self): self._queue
class Store:
    def __init__(self): self._live = 1
    def ask(self, client): client._pending
    def _reset(self): ...
"""
    assert set(private_names_used(text)) == {"_call", "_queue", "_pending"}


def test_the_kazoo_that_is_tested_is_the_newest_that_is_allowed():
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (bound,) = re.findall(r'"kazoo>=[\d.]+,<(\d+)\.(\d+)"', declared)
    pinned = re.search(r"^kazoo==(\d+)\.(\d+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    assert (int(pinned[1]), int(pinned[2]) + 1) == tuple(map(int, bound))
