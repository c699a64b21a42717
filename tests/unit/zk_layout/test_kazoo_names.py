"""Names outside kazoo's public API may change with any release, so a table lists each one that we use.

Such names are kazoo's private names, the methods that our classes override, imports that kazoo's documentation does not
list as public, and the attributes of its connection with the fields of its requests and replies.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import kazoo
import kazoo.version
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Connect, ReplyHeader

from zk_layout import kazoo_acls, kazoo_client, kazoo_requests, kazoo_session, kazoo_store, kazoo_translation

ROOT = Path(__file__).parents[3]
KAZOO = Path(kazoo.__file__).parent
MODULES = (kazoo_acls, kazoo_client, kazoo_requests, kazoo_session, kazoo_store, kazoo_translation)
OURS = sorted((ROOT / "zk_layout").glob("kazoo_*.py"))
TABLE = set(re.findall(r"^    (\w+)  +\S", kazoo_client.__doc__ or "", re.MULTILINE))
PUBLIC = {
    "kazoo.client.KazooClient",
    "kazoo.exceptions",
    "kazoo.handlers.threading.SequentialThreadingHandler",
    "kazoo.protocol.states.EventType",
    "kazoo.protocol.states.KazooState",
    "kazoo.protocol.states.KeeperState",
    "kazoo.protocol.states.WatchedEvent",
    "kazoo.security.ACL",
}
"""The names that we import and that docs/api/ in kazoo's repository lists as public."""
KAZOO_FILES = [path for folder in (".", "protocol", "handlers") for path in sorted((KAZOO / folder).glob("*.py"))]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def names_of_kazoo() -> set[str]:
    """Return kazoo's private functions, and the private attributes of its objects."""
    found = set()
    for path in KAZOO_FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.Attribute(attr=name, ctx=ast.Store()) if is_private(name):
                    found.add(name)
    return found


def names_from_kazoo(tree: ast.Module) -> set[str]:
    """Return the names that a file imports from kazoo."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in imports if (node.module or "").startswith("kazoo") for alias in node.names}


def private_names_used(text: str) -> Iterator[str]:
    """Yield the private names that a file uses, except on self in classes without a base from kazoo."""
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


def names_overridden(module: ModuleType) -> Iterator[str]:
    """Yield the names that a class of this module overrides from its base in kazoo."""
    for ours in vars(module).values():
        if isinstance(ours, type) and ours.__module__ == module.__name__:
            for base in ours.__mro__:
                if base.__module__.startswith("kazoo."):
                    yield from (name for name in vars(ours) if hasattr(base, name) and not name.startswith("__"))


def private_imports(text: str) -> Iterator[str]:
    """Yield the names that a file imports from kazoo beside its public API."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                imported = {alias.name: alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                imported = {f"{module}.{alias.name}": alias.name for alias in names}
            case _:
                continue
        yield from (name for full, name in imported.items() if full.startswith("kazoo.") and full not in PUBLIC)


def set_on_self(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    stored = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in stored if is_self(node.value)}


def is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def names_of_the_connection(text: str) -> Iterator[str]:
    """Yield the attributes of kazoo's connection that a file reads and that no client has.

    For a file with private imports, also the fields of requests and replies.
    """
    held = set_on_self(KAZOO / "protocol" / "connection.py") - set_on_self(KAZOO / "client.py")
    if any(private_imports(text)):
        held |= {*Connect._fields, *ReplyHeader._fields}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load(), value=of) if name in held and not is_self(of):
                yield name
            case ast.Call(func=ast.Attribute(attr="_replace"), keywords=keywords):
                yield from (keyword.arg for keyword in keywords if keyword.arg in held)


def test_no_name_of_kazoo_that_is_not_its_public_face_is_used_that_the_table_lacks():
    assert [path.stem for path in OURS] == [module.__name__.rpartition(".")[2] for module in MODULES]
    texts = [path.read_text(encoding="utf-8") for path in OURS]
    private = {name for text in texts for name in private_names_used(text)} & names_of_kazoo()
    overridden = {name for module in MODULES for name in names_overridden(module)}
    imported = {name for text in texts for name in private_imports(text)}
    read = {name for text in texts for name in names_of_the_connection(text)}
    assert private | overridden | imported | read == TABLE


def test_a_method_that_a_class_has_anew_shows_and_one_of_its_own_does_not():
    module = ModuleType("ours")
    module.Handler = type("Handler", (SequentialThreadingHandler,), {"__module__": "ours", "spawn": 1, "cut": 2})
    assert set(names_overridden(module)) == {"spawn"}


def test_what_is_read_of_the_connection_shows():
    text = "made.sasl_options\nmade.logger\nself.retry_sleeper\nmade.client = 1\n"
    assert set(names_of_the_connection(text)) == {"sasl_options"}


def test_a_field_of_a_request_or_a_reply_shows():
    text = "request._replace(last_zxid_seen=0, other=1)\nreply[0].xid\nself.passwd\n"
    assert set(names_of_the_connection(text)) == set()
    imports = "from kazoo.protocol.serialization import Connect\n"
    assert set(names_of_the_connection(imports + text)) == {"last_zxid_seen", "xid"}


def test_an_import_that_is_not_of_the_public_api_shows():
    text = """
import kazoo.protocol.paths
from kazoo import exceptions, version
from kazoo.protocol import serialization
from kazoo.protocol.serialization import Connect as Begin
from kazoo.security import ACL
"""
    assert set(private_imports(text)) == {"kazoo.protocol.paths", "version", "serialization", "Connect"}


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
