from pathlib import Path

import pytest

from legacy_consumer.errors import JavaMissingError
from legacy_consumer.sandbox.servers.java import find_java


def write_program(folder: Path, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return monkeypatch


def test_without_java_the_error_says_what_to_install(no_java):
    with pytest.raises(JavaMissingError, match="no java on PATH: install Java 17 or newer"):
        find_java()


@pytest.mark.parametrize(
    ("first_line", "version"), [('openjdk version "11.0.2" 2019-01-15', 11), ('java version "1.8.0_292"', 8)]
)
def test_an_older_java_is_refused_and_its_version_named(no_java, tmp_path, first_line, version):
    program = write_program(tmp_path / "old", f"echo '{first_line}' >&2")
    no_java.setenv("PATH", str(program.parent))
    with pytest.raises(JavaMissingError, match=f"is Java {version}, which is too old") as caught:
        find_java()
    assert str(program) in str(caught.value)


@pytest.mark.parametrize("line", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "25" 2025-09-16'])
def test_java_17_and_newer_are_taken(no_java, tmp_path, line):
    program = write_program(tmp_path / "new", f"echo '{line}' >&2")
    no_java.setenv("PATH", str(program.parent))
    assert find_java() == program


def test_java_home_comes_before_path_and_is_not_passed_over(no_java, tmp_path):
    on_path = write_program(tmp_path / "path", "echo 'version \"21\"' >&2")
    at_home = write_program(tmp_path / "home" / "bin", "echo 'version \"17\"' >&2")
    no_java.setenv("PATH", str(on_path.parent))
    no_java.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == at_home
    no_java.setenv("JAVA_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME.*does not exist"):
        find_java()


def test_a_program_that_is_no_java_is_refused(tmp_path):
    program = write_program(tmp_path, "echo hello")
    with pytest.raises(JavaMissingError, match="prints no version"):
        find_java(program)


def test_a_java_that_was_replaced_is_asked_again(tmp_path):
    program = write_program(tmp_path, "echo 'version \"11\"' >&2")
    with pytest.raises(JavaMissingError):
        find_java(program)
    write_program(tmp_path, "echo 'version \"17\"' >&2")
    assert find_java(program) == program
