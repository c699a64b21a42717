"""Links, commands and files that the documents name exist, and their examples construct consumers correctly."""

import ast
import importlib.util
import re
import textwrap
from pathlib import Path

import pytest

import legacy_consumer

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
TARGETS = set(re.findall(r"(?m)^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8")))
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
PYTHON = re.compile(r"(?ms)^ *```python\n(.*?)^ *```")
CONSUMERS = {"ConsumerConnector", "SimpleConsumer"}


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, in GitHub's form."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> list[str]:
    """Return the links of a page to files or headings that do not exist."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", text)):
        name, _, anchor = link.partition("#")
        if name.startswith("https:"):
            continue
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_document_resolves(page):
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found():
    page = ROOT / "docs" / "testing.md"
    assert broken_links(page, "[a](chaos.md), [b](chaos.md#no-heading), [c](nothing.md)") == [
        "chaos.md#no-heading",
        "nothing.md",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_document_exists(page):
    code = "\n".join(CODE.findall(page.read_text(encoding="utf-8")))
    assert set(re.findall(r"(?m)(?:^|`)make ([a-z][\w-]*)", code)) - TARGETS == set()
    modules = {name for name in re.findall(r"python3? -m (\w[\w.]*)", code) if not name.startswith("pip")}
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []
    examples = set(re.findall(r"\bexamples/[\w/]+\.\w+", code))
    assert [name for name in examples if not (ROOT / name).exists()] == []


def test_every_consumer_that_a_document_makes_can_be_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "consumer.properties").write_text("zookeeper.connect=localhost:2181\ngroup.id=g\n", encoding="utf-8")
    names = {name: getattr(legacy_consumer, name) for name in legacy_consumer.__all__}
    names["config"] = legacy_consumer.ConsumerConfig.load("consumer.properties")
    made = set()
    for page in PAGES:
        for block in PYTHON.findall(page.read_text(encoding="utf-8")):
            for call in ast.walk(ast.parse(textwrap.dedent(block))):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in CONSUMERS:
                    with eval(compile(ast.Expression(call), page.name, "eval"), names):
                        made.add((page.name, call.func.id))
    assert made >= {("README.md", "ConsumerConnector"), ("simple-consumer.md", "SimpleConsumer")}
