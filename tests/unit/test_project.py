"""Files and settings that the documents list exist, and no file holds forbidden text."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from legacy_consumer.operations.cli import main
from tests.support.tiers import SERVER_MARKERS, TIERS

ROOT = Path(__file__).parents[2]

# Host names of package indexes, in pieces so that this file holds none of them.
INDEX_HOSTS = "|".join(
    re.escape(".".join(parts))
    for parts in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("maven", "org"),
        ("maven", "apache"),
        ("sonatype", "com"),
        ("sonatype", "org"),
        ("npmjs", "org"),
        ("deb", "debian"),
    ]
)
OPTION = "index" + "-url"
NOT_ELSEWHERE = {
    "the host of a package index": re.compile(rf"{INDEX_HOSTS}|--(?:extra-)?{OPTION}"),
    "a path of one machine": re.compile(r"(?<![\w.$})\]*-])/(?:home/\w|root/|work/|farm/|Users/\w)"),
}


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project_files() -> list[Path]:
    """Return every file that is in git, or that `git add` would take."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in sorted(set(listed.stdout.split("\0"))) if name and (path := ROOT / name).is_file()]


def commands(command: click.Command = main, name: str = "legacy-consumer") -> Iterator[tuple[str, click.Command]]:
    """Yield (full name, command) of every command and group, such as `legacy-consumer groups list`."""
    yield name, command
    if isinstance(command, click.Group):
        for child, inner in sorted(command.commands.items()):
            yield from commands(inner, f"{name} {child}")


def misplaced(text: str) -> list[str]:
    """Return the parts of the text that are of use on one machine only, or must not be known outside of it."""
    return [f"{what}: {found[0]}" for what, pattern in NOT_ELSEWHERE.items() for found in pattern.finditer(text)]


def sleeps(source: str) -> list[int]:
    """Return the lines that sleep for a fixed time instead of waiting for a condition."""
    if "sleep" not in source:
        return []
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == "sleep")
            or (isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "time.sleep")
        )
    ]


def test_no_file_names_a_package_index_or_a_path_of_one_machine():
    wrong = []
    for path in project_files():
        try:
            found = misplaced(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
        wrong += [f"{path.relative_to(ROOT)}: {what}" for what in found]
    assert wrong == []


def test_an_index_or_a_machine_path_would_be_found():
    assert misplaced("see https://files." + "pythonhosted" + ".org/x") == [
        "the host of a package index: " + "pythonhosted" + ".org"
    ]
    assert misplaced("pip install --" + OPTION + " x") == ["the host of a package index: --" + OPTION]
    assert misplaced('open("/' + 'root/.cache")') == ["a path of one machine: /" + "root/"]
    assert misplaced("the znode $chroot/root/x, or a/work/b") == []


def test_no_test_sleeps_but_the_helpers_that_poll():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in project_files()
        if path.suffix == ".py" and "tests" in path.parts and "support" not in path.parts
        for line in sleeps(path.read_text())
    ]
    assert wrong == []


def test_a_sleep_would_be_found():
    assert sleeps("import time\ntime.sleep(1)\n") == [2]
    assert sleeps("from time import sleep\n\nsleep(1)\n") == [3]
    assert sleeps("event.wait(1)\nclock.sleep(2)\n") == []


def test_readme_lists_every_command():
    readme = text_of("README.md")
    names = [name for name, command in commands() if not isinstance(command, click.Group)]
    assert "legacy-consumer quickstart" in names
    assert [name for name in names if f"`{name}" not in readme] == []


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_help_ends_with_an_example(name):
    shown = CliRunner().invoke(main, [*name.split()[1:], "--help"])
    assert shown.exit_code == 0
    _, example, after = shown.output.rpartition("Example")
    assert example, f"{name} --help has no example"
    assert name in after
    assert "Options:" not in after, "the example comes last: give it as the command's epilog"


def test_readme_begins_with_the_two_commands():
    first = re.search(r"```\w*\n(.*?)```", text_of("README.md"), re.DOTALL)
    assert first is not None
    assert re.findall(r"^make \w+", first[1], re.MULTILINE) == ["make quickstart", "make test"]


def test_changelog_begins_with_the_version_of_the_package():
    version = re.search(r'^version = "(.+)"$', text_of("pyproject.toml"), re.MULTILINE)
    newest = re.search(r"^## (\S+)", text_of("CHANGELOG.md"), re.MULTILINE)
    assert version is not None
    assert newest is not None
    assert newest[1] == version[1]


OURS = {"legacy-consumer", "legacy-consumer-native"}


def test_everything_declared_is_pinned():
    declared = set(re.findall(r'"([a-zA-Z][\w-]*)(?:[<>=][^"]*)?"', declared_dependencies())) - OURS
    pinned = set(re.findall(r"^([\w-]+)==", text_of("constraints.txt"), re.MULTILINE))
    assert len(declared) > 10
    assert {name.lower().replace("_", "-") for name in declared} - pinned == set()


def test_the_image_installs_the_tested_versions_with_hashes():
    pins = r"^([\w-]+==[\w.]+)(?: ; python_(?:full_)?version (<|>=) ['\"]([\d.]+)['\"])?"
    tested = set(re.findall(pins, text_of("constraints.txt"), re.MULTILINE))
    entries = re.split(r"\n(?=\w)", re.sub(r"(?m)^#.*\n", "", text_of("requirements-deploy.txt")).strip())
    assert len(entries) > 25
    for entry in entries:
        found = re.match(pins, entry)
        assert found is not None, entry
        # a pin that holds for all Pythons may be one that only some of them need
        assert found.groups() in tested or (found[1], "", "") in tested or found.groups("") in tested, entry
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert "://" not in text_of("requirements-deploy.txt")


def declared_dependencies() -> str:
    """Return the parts of pyproject.toml that name dependencies, without comments."""
    text = re.sub(r"#.*", "", text_of("pyproject.toml"))
    parts = re.findall(
        r"^dependencies = \[(.*?)^\]|^\[project\.optional-dependencies\](.*?)^\[",
        text,
        re.MULTILINE | re.DOTALL,
    )
    return "".join(required + optional for required, optional in parts)


def test_every_tier_and_marker_is_explained():
    explained = text_of("docs/testing.md")
    assert [name for name in (*TIERS, *SERVER_MARKERS, "slow") if f"`{name}`" not in explained] == []


def test_the_checks_before_landing_are_those_of_the_readme():
    assert re.findall(r"^make .+", text_of(".ci/run"), re.MULTILINE) == [
        "make style native",
        'make types native-check >"$types" 2>&1 &',
        "make test || failed=1",
        "make pythons || failed=1",
    ]
