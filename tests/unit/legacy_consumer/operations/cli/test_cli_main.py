"""The command line as a whole: its help, its exit codes, and one line for each error."""

from __future__ import annotations

import importlib.metadata
import logging
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from legacy_consumer.operations.cli import main as program
from legacy_consumer.operations.cli.helpers import logs
from zk_layout.errors import MissingChrootError

ROOT = Path(__file__).parents[5]


def commands_under(command, names=()):
    """Yield every command with its name: (("groups", "list"), the command)."""
    yield names, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            yield from commands_under(command.get_command(ctx, name), (*names, name))


ALL = dict(commands_under(program))
CONSUME_T = ["consume", "--zookeeper", "h:1", "--topic", "t"]


@pytest.fixture(autouse=True)
def _logging_as_before():
    root, kazoo = logging.getLogger(), logging.getLogger("kazoo")
    before = root.level, kazoo.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    kazoo.setLevel(before[1])
    root.handlers[:] = before[2]


@pytest.fixture
def failing(monkeypatch):
    """Return a function that adds a command `fail`, which raises the given error."""

    def add(error):
        @click.command()
        def fail():
            raise error

        found = type(program).get_command
        monkeypatch.setattr(
            type(program), "get_command", lambda self, ctx, name: fail if name == "fail" else found(self, ctx, name)
        )

    return add


def main(args):
    """Call the program in this process. Returns: its exit code."""
    with pytest.raises(SystemExit) as end:
        program(args)
    return end.value.code


def run(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "legacy_consumer", *args],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        **options,
    )


def test_the_commands_of_this_program_are_there():
    assert {("assign",), ("consume",), ("embedded", "up"), ("groups", "list"), ("groups", "describe")} <= set(ALL)


@pytest.mark.parametrize("names", ALL, ids=" ".join)
def test_every_help_ends_with_an_example_of_that_command(names, capsys):
    assert main([*names, "--help"]) == 0
    shown = capsys.readouterr().out
    _, heading, example = re.split(r"(?m)^ *(Examples?:)$", shown)
    assert heading
    lines = [line.strip() for line in example.strip().splitlines()]
    called = [line for line in lines if " ".join(("legacy-consumer", *names)) in line]
    assert called
    assert not [line for line in lines if line.startswith("-")], "options come before the example"


def test_the_program_lists_its_commands_with_one_line_each(capsys):
    main(["--help"])
    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == [name for (name, *more) in list(ALL)[1:] if not more]
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


@pytest.mark.parametrize("names", ["groups", "embedded"])
def test_a_group_cuts_no_command_short(names, capsys):
    main([names, "--help"])
    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize("names", [n for n in ALL if n and n[0] in {"consume", "groups"} and n != ("groups",)])
def test_every_command_of_a_cluster_takes_the_same_options(names):
    options = {option for param in ALL[names].params for option in param.opts}
    assert {"--zookeeper", "--config", "--property", "--verbose"} <= options


FLOATS = [
    (" ".join([*names, param.opts[0]]), param)
    for names, command in ALL.items()
    for param in command.params
    if isinstance(param.type, click.types.FloatParamType)
]


@pytest.mark.parametrize("text", ["nan", "inf", "1e10"])
@pytest.mark.parametrize("option", [param for _, param in FLOATS], ids=[name for name, _ in FLOATS])
def test_a_number_of_seconds_that_no_thread_can_wait_for_is_misuse(option, text):
    """Earlier, --watch nan read the cluster without a pause, --wait nan never ended, and inf halted the exporter."""
    with pytest.raises(click.BadParameter, match=f"{text}.* is not a number up to 3153600000"):
        option.type.convert(text, option, None)
    assert option.type.convert("60", option, None) == 60


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"legacy-consumer {importlib.metadata.version('legacy-consumer')}\n"


def test_the_module_runs_as_the_command():
    done = run("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: legacy-consumer ")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["groups", "list"], "Say where ZooKeeper is: --zookeeper HOST:PORT"),
        (["groups", "list", "--property", "x"], "'x' is not KEY=VALUE"),
        (["consume", "--topic", "t"], "Say where ZooKeeper is"),
        (["consume", "--zookeeper", "h:1"], "exactly one of --topic, --whitelist and --blacklist"),
        ([*CONSUME_T, "--whitelist", "t"], "exactly one of"),
        ([*CONSUME_T, "--max-messages", "0"], "--max-messages"),
        ([*CONSUME_T, "--timeout-ms", "9" * 400], "--timeout-ms"),
        ([*CONSUME_T, "--key-separator", "\\x"], "--key-separator"),
        (
            [*CONSUME_T, "--from-beginning", "--property", "auto.offset.reset=largest"],
            "--from-beginning contradicts auto.offset.reset=largest",
        ),
    ],
)
def test_misuse_ends_with_2(args, complaint, capsys):
    assert main(args) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ("groups list --zookeeper h:1 --property zookeper.connect=x:1", "did you mean zookeeper.connect?"),
        ("groups list --zookeeper h:1 --config /no/such/file", "/no/such/file: cannot be read"),
        ("groups list --zookeeper h:nope", "'h:nope' is no host:port"),
        ("groups describe a/b --zookeeper h:1", "group=a/b: is no name that a group can have"),
        ("consume --zookeeper h:1 --topic t --group a*b", "group.id=a*b: may hold only letters"),
        ("consume --zookeeper h:1 --whitelist a(b", "topic filter 'a(b': "),
        ("consume --zookeeper h:1 --topic t --property zookeper.connect=x:1", "did you mean zookeeper.connect?"),
    ],
)
def test_invalid_settings_are_an_error_of_one_line_before_any_connection(args, complaint, capsys):
    assert main(args.split()) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("Error: ")
    assert complaint in line


def test_an_error_that_ends_a_thread_is_one_line():
    """kazoo's thread ends so if a server answers with nonsense, and Python printed its traceback."""
    ends = (
        "import sys, threading; sys.argv[1:] = ['--version']\n"
        "from legacy_consumer.__main__ import program\n"
        "try: program()\nexcept SystemExit: pass\n"
        "thread = threading.Thread(target=lambda: 1 / 0, name='zk\\nloop')\n"
        "thread.start(); thread.join()"
    )
    done = subprocess.run([sys.executable, "-c", ends], capture_output=True, text=True, cwd=ROOT, timeout=60)
    [line] = done.stderr.splitlines()
    assert line.endswith(r"ERROR zk\nloop ended: ZeroDivisionError: division by zero")


def test_a_zookeeper_that_does_not_answer_is_one_line_within_the_timeout():
    done = run("groups", "list", "--zookeeper", "127.0.0.1:1", "--property", "zookeeper.connection.timeout.ms=300")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: no ZooKeeper answered at 127.0.0.1:1 within 300 ms: "
        "check that it runs and that zookeeper.connect is right, or raise zookeeper.connection.timeout.ms "
        "(127.0.0.1:1: Connection refused)\n"
    )


def test_an_error_of_this_project_is_one_line_and_1(failing, capsys):
    failing(MissingChrootError("/kafka"))
    assert main(["fail"]) == 1
    assert capsys.readouterr().err == f"Error: {MissingChrootError('/kafka')}\n"


def test_a_defect_is_one_line_and_70_and_a_traceback_on_demand(failing, capsys):
    failing(KeyError("a\nb"))
    assert main(["fail"]) == 70
    assert capsys.readouterr().err == (
        "Error: a defect of legacy-consumer: KeyError: 'a\\nb'; run again with -vv for the traceback\n"
    )
    assert main(["-vv", "fail"]) == 70
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):")
    assert shown.endswith("Error: a defect of legacy-consumer: KeyError: 'a\\nb'\n")


def test_ctrl_c_ends_with_130_and_no_traceback(failing, capsys):
    failing(KeyboardInterrupt())
    assert main(["fail"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_ctrl_c_while_connecting_ends_with_130():
    command = "-vv groups list --zookeeper 127.0.0.1:1 --property zookeeper.connection.timeout.ms=60000"
    with subprocess.Popen(
        [sys.executable, "-m", "legacy_consumer", *command.split()], stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            for line in process.stderr:
                if "Connecting to 127.0.0.1" in line:
                    break
            process.send_signal(signal.SIGINT)
            rest = process.communicate(timeout=30)[1]
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Traceback" not in rest


def test_a_reader_that_goes_away_is_no_failure():
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c '{MANY_LINES}' | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("line\n0\n", "")


MANY_LINES = """
import click
from legacy_consumer.operations.cli import main as program
@click.command()
def many():
    for _ in range(100000):
        click.echo("line")
type(program).get_command = lambda self, ctx, name: many
program(["many"])
""".replace("'", '"')


@pytest.mark.parametrize(
    ("verbosity", "lines"),
    [
        (0, ["WARNING two lines", "ERROR failed: ValueError: why"]),
        (1, ["INFO said", "WARNING two lines", "ERROR failed: ValueError: why"]),
    ],
)
def test_each_record_is_one_line_on_standard_error(verbosity, lines, capsys):
    logs.set_up_logging(verbosity)
    logs.set_up_logging(verbosity)  # the second call must not double the lines
    logger = logging.getLogger("anything")
    logger.debug("not shown")
    logger.info("said")
    logger.warning("two\nlines")
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("failed")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in captured.err.splitlines()] == lines
    assert not logs.shows_tracebacks()


def test_twice_verbose_shows_where_a_record_comes_from_and_its_traceback(capsys):
    logs.set_up_logging(2)
    logging.getLogger("anything").debug("shown")
    assert re.fullmatch(r"\d\d:\d\d:\d\d DEBUG anything: shown\n", capsys.readouterr().err)
    assert logs.shows_tracebacks()


CLOSED = {
    "config list >&-": (0, ""),
    "offsets import --zookeeper 127.0.0.1:1 --execute - <&-": (1, "Error: standard input is closed"),
    "assign <&-": (1, "Error: standard input is closed"),
    "consume --zookeeper 127.0.0.1:1 --topic t >&-": (1, "Error: standard output is closed"),
}


@pytest.mark.parametrize("command", CLOSED)
def test_a_standard_stream_that_is_closed_is_no_defect(command):
    code, told = CLOSED[command]
    line = f"{sys.executable} -m legacy_consumer {command}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr.startswith(told), done.stderr.count("\n")) == (code, True, bool(told))


@pytest.mark.parametrize("args", [["embedded", "coordinator"], ["log", "dump", "."]])
def test_a_command_that_needs_the_decoder_says_how_to_install_it(args):
    script = "import sys; sys.modules['legacy_consumer_native'] = None\n"
    script += f"from legacy_consumer.operations.cli.main import main; sys.exit(main({args}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: legacy_consumer_native cannot be imported: install legacy-consumer[fast]")
