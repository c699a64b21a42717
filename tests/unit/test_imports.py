"""Imports point one way: zk_layout <- rebalance <- legacy_consumer <- spark_source; each library has its places."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("zk_layout", "rebalance", "legacy_consumer", "spark_source")
ROOM_OF = {
    "kazoo": "zk_layout/kazoo_",
    "legacy_consumer_native": "legacy_consumer/fetching/columnar/",
    "prometheus_client": "legacy_consumer/operations/metrics/",
    "confluent_kafka": "legacy_consumer/fetching/librdkafka/client",
    "pyspark": "spark_source/",
}
NOT_SHIPPED = {"tests", "benchmarks", "examples"}


def imported_modules(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of every import, also in functions, under TYPE_CHECKING and by importlib."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield node.lineno, module
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield node.lineno, module


def wrong_imports(path: str, source: str) -> list[str]:
    """Return the forbidden imports of the file at this path, which is relative to the project."""
    layer = LAYERS.index(PurePosixPath(path).parts[0])
    wrong = []
    for line, module in imported_modules(source):
        top = module.partition(".")[0]
        if top in LAYERS[layer + 1 :]:
            wrong.append(f"{path}:{line} imports {module}: {LAYERS[layer]} stands below {top}")
        elif top in NOT_SHIPPED:
            wrong.append(f"{path}:{line} imports {module}, which is not installed with the packages")
        elif not path.startswith(ROOM_OF.get(top, "")):
            wrong.append(f"{path}:{line} imports {module}: only {ROOM_OF[top]} may")
    return wrong


def shipped_files() -> list[Path]:
    return sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def test_every_import_points_down_and_foreign_libraries_stay_in_their_rooms():
    files = shipped_files()
    assert {path.relative_to(ROOT).parts[0] for path in files} == set(LAYERS)
    assert [
        wrong for path in files for wrong in wrong_imports(path.relative_to(ROOT).as_posix(), path.read_text())
    ] == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("zk_layout/paths.py", "from rebalance.plan import plan", "zk_layout stands below rebalance"),
        ("rebalance/plan.py", "import legacy_consumer", "rebalance stands below legacy_consumer"),
        (
            "legacy_consumer/config.py",
            "def f():\n    import spark_source.source",
            "stands below spark_source",
        ),
        ("zk_layout/store.py", "from kazoo.client import KazooClient", "only zk_layout/kazoo_ may"),
        (
            "legacy_consumer/member/stream.py",
            "import confluent_kafka as ck",
            "only legacy_consumer/fetching/librdkafka/client may",
        ),
        ("legacy_consumer/sandbox/servers/jars.py", "import_module('pyspark')", "only spark_source/ may"),
        (
            "legacy_consumer/sandbox/servers/jars.py",
            "importlib.import_module('pyspark.sql')",
            "only spark_source/ may",
        ),
        (
            "spark_source/source.py",
            "if TYPE_CHECKING:\n    import benchmarks.run",
            "not installed with the packages",
        ),
    ],
)
def test_an_import_that_points_up_or_leaves_its_room_is_found(path, source, complaint):
    [wrong] = wrong_imports(path, source)
    assert complaint in wrong


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("zk_layout/kazoo_store.py", "from kazoo.client import KazooClient"),
        ("legacy_consumer/fetching/librdkafka/client.py", "import confluent_kafka"),
        ("spark_source/source.py", "from pyspark.sql.datasource import DataSource\nimport zk_layout"),
        ("legacy_consumer/sandbox/servers/jars.py", "importlib.util.find_spec('pyspark')"),
        ("rebalance/plan.py", "from rebalance.snapshot import GroupSnapshot\nfrom . import errors"),
    ],
)
def test_an_import_that_is_at_home_is_not_complained_of(path, source):
    assert wrong_imports(path, source) == []


def more_than_exports(source: str) -> list[str]:
    """Return the statements of an __init__ that do more than export (also lazily), or set __all__ or __version__."""
    extra = []
    for node in ast.parse(source).body:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Assign(targets=[ast.Name(id="__all__" | "__version__")]):
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]) if all(
                isinstance(one, ast.ImportFrom) for one in body
            ):
                pass
            case ast.Assign(value=ast.Call(func=ast.Name(id="lazy_names"))):
                pass
            case _:
                extra.append(f"line {node.lineno}: {ast.unparse(node)[:60]}")
    return extra


@pytest.mark.parametrize("package", LAYERS)
def test_a_package_has_its_errors_and_an_init_that_only_exports(package):
    assert (ROOT / package / "errors.py").is_file()
    assert (ROOT / package / "py.typed").is_file()
    assert more_than_exports((ROOT / package / "__init__.py").read_text()) == []


def test_an_init_that_does_something_is_found():
    assert more_than_exports('"""Fine."""\nfrom a import b\n\n__all__ = ["b"]\n') == []
    assert more_than_exports("import logging\n\nlogging.basicConfig()\n") == ["line 3: logging.basicConfig()"]


@pytest.mark.parametrize("module", ["legacy_consumer", "legacy_consumer.operations.cli"])
def test_importing_the_consumer_does_not_load_spark(module):
    heavy = {"pyspark", "py4j", "pyarrow", "pandas", "numpy", "spark_source"}
    code = f"import sys, {module}; print(*({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_a_command_that_lists_names_waits_for_no_library_that_it_has_no_use_for():
    """Most of the time of `groups list` is its start, to which each of these would add a tenth of a second or more."""
    unused = {
        "asyncio", "confluent_kafka", "email", "importlib.metadata", "legacy_consumer_native",
        "numpy", "prometheus_client", "pyarrow",
        "pydantic", "pyspark", "rebalance.coordinator", "rich", "tenacity",
    }  # fmt: skip
    code = (
        "import sys; from legacy_consumer.operations.cli import main; "
        "main(['groups', 'list', '--help'], standalone_mode=False); "
        f"print('loaded:', *({unused!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "loaded:", "")


ROOMS = ("config", "offsets", "fetching", "member", "sandbox", "operations")
"""The packages of legacy_consumer, lowest first; none may import a higher one. errors.py is below all."""
SEAM_OF_CONFIG = ("legacy_consumer/config/consumer_config.py", "legacy_consumer.fetching.fetcher")
"""The one exception: the configuration takes the values of auto.offset.reset from the seam of fetchers."""


def climbing_imports(path: str, source: str) -> list[str]:
    """Return the imports of a file of legacy_consumer from packages above its own in ROOMS."""
    room = PurePosixPath(path).parts[1]
    if room not in ROOMS:
        return []
    above = tuple(f"legacy_consumer.{name}" for name in ROOMS[ROOMS.index(room) + 1 :])
    return [
        f"{path}:{line} imports {module}"
        for line, module in imported_modules(source)
        if any(module == name or module.startswith(f"{name}.") for name in above) and (path, module) != SEAM_OF_CONFIG
    ]


def test_no_room_imports_one_above_it():
    files = sorted((ROOT / "legacy_consumer").rglob("*.py"))
    assert {path.relative_to(ROOT).parts[1] for path in files} >= set(ROOMS)
    found = [climbing_imports(path.relative_to(ROOT).as_posix(), path.read_text()) for path in files]
    assert [wrong for each in found for wrong in each] == []


def test_an_import_that_climbs_is_found():
    climbs = "from legacy_consumer.member.connector import ConsumerConnector"
    assert climbing_imports("legacy_consumer/fetching/fetchers.py", climbs)
    assert not climbing_imports("legacy_consumer/operations/cli/consume.py", climbs)
    assert not climbing_imports("legacy_consumer/simple_consumer.py", climbs)


def test_one_function_says_whether_a_thread_runs():
    """Up to Python 3.12, Thread.is_alive() returns False for ever after an interrupted join()."""
    asking = {str(path.relative_to(ROOT)) for path in shipped_files() if ".is_alive()" in path.read_text()}
    assert asking == {"zk_layout/running_threads.py"}, "call is_running() instead"


def test_no_error_of_a_logging_handler_reaches_the_code_that_logs():
    """A full disk would stop the consumer, so every logger comes from safe_logger()."""
    unsafe = {str(path.relative_to(ROOT)) for path in shipped_files() if "= logging.getLogger(" in path.read_text()}
    assert unsafe - {"legacy_consumer/operations/cli/helpers/logs.py"} == {"zk_layout/loggers.py"}, "use safe_logger()"
