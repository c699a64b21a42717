"""The cluster of docker-compose.yml: up, down, and a demo in which a group scales and loses a member.

    python3 deploy/compose.py up [--consumers N] | demo | down

It waits for states of the group, never for a fixed time. It needs a Docker engine, Compose v2 or docker-compose, and
Python, but not this project's environment.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GROUP = "flights"
PARTITIONS = 6
ZOOKEEPER = "zk1:2181,zk2:2181,zk3:2181"
PATIENCE_S = 240.0
LOOK_S = 1.0


class ComposeError(Exception):
    """An error that is printed as one line."""


def compose_command() -> list[str]:
    """Compose v2 if Docker has it, else docker-compose. Raises: ComposeError."""
    if not shutil.which("docker"):
        raise ComposeError("docker is not installed: install a Docker engine and Compose")
    engine = subprocess.run(["docker", "version"], capture_output=True, text=True, check=False)
    if engine.returncode:
        reason = (engine.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise ComposeError(f"no Docker engine answers ({reason}): start one, `docker version` must succeed")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise ComposeError("neither `docker compose` nor docker-compose is there: install one of them")


class Cluster:
    def __init__(self) -> None:
        self._compose = compose_command()
        self._began = time.monotonic()

    def run(self, *arguments: str, check: bool = True) -> None:
        """Raises: ComposeError if the command fails; what it said stands above."""
        # the classic builder's layers serve every version of Compose
        code = subprocess.run(
            [*self._compose, *arguments], check=False, cwd=ROOT, env={"COMPOSE_DOCKER_CLI_BUILD": "0", **os.environ}
        ).returncode
        if check and code:
            raise ComposeError(f"`{' '.join([*self._compose, *arguments])}` ended with exit code {code}: see above")

    def ask(self, *arguments: str) -> str:
        done = subprocess.run([*self._compose, *arguments], check=False, capture_output=True, text=True, cwd=ROOT)
        return done.stdout

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    def check_port(self) -> None:
        """Check the exporter's port. Raises: ComposeError if another process listens there."""
        port = os.environ.get("EXPORTER_PORT", "9308")
        if not port.isdigit() or self.ask("ps", "-q", "exporter").strip():
            return  # Compose says what is wrong with it; or the port is our own already
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", int(port)))
            except OSError as error:
                raise ComposeError(
                    f"the exporter's port 127.0.0.1:{port} is in use: choose another, EXPORTER_PORT=9309 for example"
                ) from error

    def up(self, consumers: int) -> None:
        self.check_port()
        self.say("building the image and starting the cluster; the first time this takes some minutes")
        self.run("build", "zk1")
        self.run("up", "-d", "--scale", f"consumer={consumers}")
        self.wait(f"{_count(consumers)} {'owns' if consumers == 1 else 'own'} all", is_shared_by(consumers))

    def scale(self, consumers: int) -> None:
        self.run("up", "-d", "--no-recreate", "--scale", f"consumer={consumers}", "consumer")

    def down(self) -> None:
        self.run("down", "--volumes", "--remove-orphans")

    def consumers(self) -> list[str]:
        return self.ask("ps", "-q", "consumer").split()

    def group(self) -> Mapping[str, Any]:
        """Return the output of `groups describe --json`; empty while the command fails."""
        text = self.ask(
            "exec", "-T", "exporter",
            "legacy-consumer", "groups", "describe", GROUP, "--zookeeper", ZOOKEEPER, "--json",
        )  # fmt: skip
        try:
            return dict(json.loads(text))
        except ValueError:
            return {}

    def wait(self, what: str, is_so: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """Look until the group is so. Raises: ComposeError."""
        began = time.monotonic()
        while True:
            group = self.group()
            if group and is_so(group):
                self.say(f"{what}: {summary(group)}")
                return group
            if time.monotonic() - began > PATIENCE_S:
                raise ComposeError(f"not after {PATIENCE_S:.0f} s: {what}; the group is at {summary(group)}")
            time.sleep(LOOK_S)


def rows(group: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return list(group.get("partitions", []))


def owners(group: Mapping[str, Any]) -> set[str]:
    return {str(row["owner"]) for row in rows(group) if row["owner"] and row["owner_is_member"]}


def committed(group: Mapping[str, Any]) -> int:
    return sum(row["committed"] or 0 for row in rows(group))


def is_shared_by(members: int) -> Callable[[Mapping[str, Any]], bool]:
    """Return whether the group has this many members and each partition belongs to one of them."""

    def check(group: Mapping[str, Any]) -> bool:
        owned = sum(1 for row in rows(group) if row["owner"] and row["owner_is_member"])
        return owned == PARTITIONS and len(owners(group)) == len(group["members"]) == members

    return check


def summary(group: Mapping[str, Any]) -> str:
    lag = sum(row["lag"] or 0 for row in rows(group))
    return (
        f"{len(owners(group))} owner(s) of {len(rows(group))} partitions, committed {committed(group):,}, lag {lag:,}"
    )


def _count(consumers: int) -> str:
    return f"{consumers} consumer{'s' if consumers > 1 else ''}"


def demo(cluster: Cluster) -> None:
    """Raises: ComposeError. Takes everything down at the end, one way or the other."""
    try:
        cluster.up(1)
        cluster.scale(4)
        cluster.wait("4 consumers share them", is_shared_by(4))
        victim = cluster.consumers()[0]
        killed = time.monotonic()
        subprocess.run(["docker", "kill", victim], check=True, stdout=subprocess.DEVNULL)
        cluster.say(f"consumer {victim[:12]} killed with -9")
        cluster.wait("the others took over", is_shared_by(3))
        cluster.say(f"its partitions had other owners {time.monotonic() - killed:.0f} s after the kill")
        cluster.scale(1)
        group = cluster.wait("1 consumer owns all again", is_shared_by(1))
        cluster.wait("and goes on", lambda now: committed(now) > committed(group))
        cluster.run("run", "--rm", "spark")
        cluster.say("Spark read the table above")
    except ComposeError:
        cluster.run("ps", check=False)
        cluster.run("logs", "--tail", "10", check=False)
        raise
    finally:
        cluster.say("taking it down")
        cluster.run("down", "--volumes", "--remove-orphans", check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start the cluster and wait until the group is settled")
    up.add_argument("--consumers", type=int, default=1, choices=range(1, 7), metavar="1-6")
    commands.add_parser("demo", help="scale 1 to 4 to 1, kill one, show, down")
    commands.add_parser("down", help="end the cluster and remove its volumes")
    arguments = parser.parse_args()
    try:
        cluster = Cluster()
        if arguments.command == "up":
            cluster.up(arguments.consumers)
        elif arguments.command == "demo":
            demo(cluster)
        else:
            cluster.down()
    except ComposeError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
