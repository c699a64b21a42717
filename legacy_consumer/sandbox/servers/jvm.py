"""The command line of an embedded server: flags, logging set-up, class path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_FLAGS = (
    "-XX:+UseSerialGC",
    # no file under the system's temporary folder, which a kill would leave behind
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    # Kafka before 2.1 and its ZooKeeper reach into these packages, which Java 17 closes
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)

ALL_COMPILERS = ("-XX:TieredStopAtLevel=4",)
"""Flags for a server that lives long enough for the better compiler to pay, as Java itself has it."""

# the Kafka jars log through reload4j (log4j 1's format), the jars of the pyspark wheel through log4j 2
_LOG4J_1 = """\
log4j.rootLogger={level}, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target={target}
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m (%c{{1}})%n
"""
_LOG4J_2 = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.target={log4j_2_target}
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c{{1}})%n%ex
rootLogger.level={level}
rootLogger.appenderRef.console.ref=console
"""


def write_logging_files(folder: Path, level: str = "INFO", target: str = "System.out") -> None:
    """Put into the folder what java_command points the loggers at. target: System.out or System.err."""
    settings = {"level": level, "target": target, "log4j_2_target": target.upper().replace(".", "_")}
    (folder / "log4j.properties").write_text(_LOG4J_1.format(**settings), encoding="ascii")
    (folder / "log4j2.properties").write_text(_LOG4J_2.format(**settings), encoding="ascii")


def java_command(
    java: Path, jars: Sequence[Path], main: str, arguments: Sequence[str], *, folder: Path, flags: Sequence[str] = ()
) -> list[str]:
    """The command that runs a main class, or a single .java source file, on the jars.

    Temporary files go into folder/tmp, since a killed JVM leaves the native libraries of its codecs there. Later
    flags win over earlier ones.
    """
    tmp = folder / "tmp"
    tmp.mkdir(exist_ok=True)
    return [
        os.fspath(java),
        *_FLAGS,
        f"-Djava.io.tmpdir={tmp}",
        f"-XX:ErrorFile={folder / 'hs_err.log'}",
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}",
        *flags,
        "-cp",
        os.pathsep.join(os.fspath(jar) for jar in jars),
        main,
        *arguments,
    ]


def write_properties(path: Path, properties: dict[str, str]) -> None:
    """Write a java.util.Properties file."""
    path.write_text(
        "".join(f"{_escape(key, ' :=')}={_escape(value, '')}\n" for key, value in properties.items()), encoding="ascii"
    )


def _escape(text: str, also: str) -> str:
    escaped = []
    for index, char in enumerate(text):
        if char == "\\" or char in also or (char in " #!" and index == 0):
            escaped.append("\\" + char)
        elif char in "\n\r\t":
            escaped.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char])
        elif " " <= char <= "~":
            escaped.append(char)
        else:
            units = char.encode("utf-16-be")
            escaped += [f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]
    return "".join(escaped)
