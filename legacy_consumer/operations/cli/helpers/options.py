"""The options of all commands that use a cluster, and the configuration made from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from legacy_consumer.config import ClusterConfig
from legacy_consumer.operations.cli.helpers.logs import FORMATS, set_log_format, set_up_logging
from zk_layout.errors import ConfigError, ConnectTimeoutError
from zk_layout.kazoo_store import KazooStore

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

_VERBOSITY = f"{__name__}.verbosity"
_LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options that say how to reach the cluster."""

    zookeeper: str | None
    config_file: Path | None
    properties: tuple[tuple[str, str], ...]

    def overrides(self) -> dict[str, str | int | bool]:
        """Return the properties on the command line, which take precedence over the file."""
        given: dict[str, str | int | bool] = dict(self.properties)
        if self.zookeeper is not None:
            given["zookeeper.connect"] = self.zookeeper
        return given


def cluster_options(
    command: Callable[Concatenate[ClusterOptions, P], R],
) -> Callable[P, R]:
    """Give a command --zookeeper, --config, --property and -v; it gets the first three as ClusterOptions."""

    @click.option(
        "--zookeeper",
        metavar="HOST:PORT[,...][/CHROOT]",
        help="The address of ZooKeeper: the property zookeeper.connect.",
    )
    @click.option(
        "--config",
        "config_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="A consumer.properties file, as JVM consumers use it.",
    )
    @click.option(
        "--property",
        "properties",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="One property, which overrides the file; may be repeated.",
    )
    @verbose_option
    @functools.wraps(command)
    def with_cluster(*args: P.args, **kwargs: P.kwargs) -> R:
        cluster = ClusterOptions(
            zookeeper=kwargs.pop("zookeeper"),  # type: ignore[arg-type]  # click made them of the options above
            config_file=kwargs.pop("config_file"),  # type: ignore[arg-type]
            properties=kwargs.pop("properties"),  # type: ignore[arg-type]
        )
        return command(cluster, *args, **kwargs)

    return with_cluster


def verbose_option(command: F) -> F:
    """Add -v (-vv for everything) and --log-format, before or after the command's name."""
    with_format = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        expose_value=False,
        callback=_set_log_format,
        help="The form of log lines; json: one object a line, with group and consumer id.",
    )(command)
    return click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_set_verbosity,
        help="Log each step to standard error; twice: log everything, with tracebacks.",
    )(with_format)


def _set_log_format(_ctx: click.Context, _param: click.Parameter, name: str | None) -> None:
    if name is not None:
        set_log_format(name)


def _set_verbosity(ctx: click.Context, _param: click.Parameter, count: int) -> None:
    # the contexts of a command and of the group above it share meta
    verbosity = ctx.meta.get(_VERBOSITY, 0) + count
    ctx.meta[_VERBOSITY] = verbosity
    set_up_logging(verbosity)


def _pairs(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        pairs.append((key.strip(), value.strip()))
    return tuple(pairs)


@contextmanager
def missing_zookeeper_is_misuse() -> Iterator[None]:
    """Turn the ConfigError for a missing ZooKeeper into an error that names the command's options."""
    try:
        yield
    except ConfigError as error:
        if error.key == "zookeeper.connect" and error.value is None:
            what = "Say where ZooKeeper is: --zookeeper HOST:PORT, or zookeeper.connect in --config FILE."
            _, _, misspelling = error.reason.partition("; ")
            raise click.UsageError(f"{what} {misspelling}".rstrip()) from error
        raise


def load_cluster_config(cluster: ClusterOptions) -> ClusterConfig:
    """Return the configuration for commands that do not join a group. Raises: ConfigError."""
    with missing_zookeeper_is_misuse():
        return ClusterConfig.load(cluster.config_file, cluster.overrides())


@contextmanager
def open_store(config: ClusterConfig) -> Iterator[KazooStore]:
    """Connect to ZooKeeper for the time of a command."""
    # a znode that a command creates gets the ACL of the znodes beside it
    store = KazooStore(replace(config.zk_settings(), keep_acl=True))
    try:
        try:
            store.start()
        except ConnectTimeoutError as error:
            raise click.ClickException(f"{error} ({_reasons(config.zookeeper_connect)})") from error
        yield store
    finally:
        store.close()


def _reasons(connect: str) -> str:
    """Return the state of each server: an unknown name, a missing route or a server that does not serve."""
    from legacy_consumer.operations.admin.reach import tell_zookeeper

    return ", ".join(f"{server}: {said}" for server, said in tell_zookeeper(connect, _LOOK_S).items())
