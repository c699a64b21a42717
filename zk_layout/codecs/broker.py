"""A broker's registration in /brokers/ids/<id>.

Version 1 (0.8.0; 0.8.1 and 0.8.2), 2 (0.9), 3 (0.10.0 and 0.10.1), 4 (0.10.2 to 2.6), 5 (2.7 to 3.9):

    { "host":"h1", "jmx_port":-1, "port":9092, "timestamp":"1376439412000", "version":1 }
    {"jmx_port":-1,"timestamp":"1428512949385","host":"h1","version":1,"port":9092}
    {"jmx_port":-1,"timestamp":"1454312943000","endpoints":["PLAINTEXT://h1:9092"],"host":"h1","version":2,"port":9092}
    {"jmx_port":-1,"timestamp":"1464312943000","endpoints":["PLAINTEXT://h1:9092"],"host":"h1","version":3,"port":9092,
     "rack":"dc1"}
    {"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT"},"endpoints":["INTERNAL://h1:9092"],"jmx_port":-1,
     "host":"h1","timestamp":"1510000000000","port":9092,"version":4}
    {"features":{"feature":{"min_version":1,"max_version":3}},"listener_security_protocol_map":{"SSL":"SSL"},
     "endpoints":["SSL://[2001:db8::1]:9093"],"jmx_port":-1,"port":-1,"host":null,"version":5,
     "timestamp":"1614000000000"}

The host and port fields belong to the first PLAINTEXT endpoint; from version 2 on the endpoints are complete.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zk_layout.codecs.java_number import parse_int
from zk_layout.codecs.strict_json import JsonObject, decode_object
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import Broker, Endpoint
from zk_layout.paths import BrokerIdPath

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_BROKER_OF_0_7 = re.compile(rb"[^:{\"]*:[^:{\"]*:[0-9]+")
"""`127.0.0.1-1315436360737:127.0.0.1:9092` = creator id, host, port."""
_PLAINTEXT = "PLAINTEXT"
_MAX_PORT = 65535
_LONGEST_HOST = 255
_SHOWN = 300
"""The characters of bad data in an error: any client may write as much here as a znode can hold."""


def decode_broker(path: str, data: bytes | None) -> Broker:
    """Read a broker's registration, versions 1 to 5, and newer ones as far as they keep to 5.

    Raises: MalformedZnodeError, also for a listener whose security protocol is not given.
    Source: cluster/Broker.scala, createBroker (0.10.2.2); zk/ZkData.scala, BrokerIdZNode (2.8.2).
    """
    place = BrokerIdPath.parse(path)
    if place is None:
        raise MalformedZnodeError(path, data, "the znode's name is not a broker id")
    if data and _BROKER_OF_0_7.fullmatch(data):
        raise MalformedZnodeError(path, data, "written by a broker of Kafka 0.7, whose layout and protocol are others")
    document = decode_object(path, data)
    version = document.integer("version", 1)
    if version < 1:
        raise document.malformed("version", "1 or above")
    endpoints = _only_endpoint(document) if version == 1 else _endpoints(document)
    plaintext = next((e for e in endpoints if e.security_protocol == _PLAINTEXT), None)
    return Broker(
        broker_id=place.broker_id,
        host=plaintext.host if plaintext else None,
        port=plaintext.port if plaintext else -1,
        endpoints=endpoints,
        version=version,
        timestamp_ms=document.long_in_quotes("timestamp"),
        jmx_port=document.integer("jmx_port", -1),
        rack=None if document.is_null("rack") else document.text("rack"),
        features={} if document.is_null("features") else _features(document.child("features")),
    )


def _only_endpoint(document: JsonObject) -> tuple[Endpoint, ...]:
    port = document.integer("port")
    if not -1 <= port <= _MAX_PORT:
        raise document.malformed("port", "a port")
    host = document.text("host")
    if len(host) > _LONGEST_HOST:
        raise document.malformed("host", "a host's name")
    return (Endpoint(_PLAINTEXT, _PLAINTEXT, host, port),)


def _endpoints(document: JsonObject) -> tuple[Endpoint, ...]:
    protocols: dict[str, str] | None = None
    if not document.is_null("listener_security_protocol_map"):
        listeners = document.child("listener_security_protocol_map")
        protocols = {name.upper(): listeners.text(name).upper() for name in listeners}
    return tuple(_endpoint(document, text, protocols) for text in document.texts("endpoints"))


def _endpoint(document: JsonObject, text: str, protocols: Mapping[str, str] | None) -> Endpoint:
    """Take `LISTENER://host:port` apart; the host may be empty or `[ipv6]`."""
    found = _ENDPOINT.fullmatch(text)
    port = parse_int(found[3].encode()) if found else None
    if found is None or port is None or not -1 <= port <= _MAX_PORT or len(found[2]) > _LONGEST_HOST:
        raise document.malformed("endpoints", f"a list of LISTENER://host:port, it has {text[:_SHOWN]!a}")
    listener_name = found[1].upper()
    if protocols is None:
        return Endpoint(listener_name, listener_name, found[2], port)
    if listener_name not in protocols:
        lacking = f"complete, it lacks {listener_name[:_SHOWN]!a}"
        raise document.malformed("listener_security_protocol_map", lacking)
    return Endpoint(listener_name, protocols[listener_name], found[2], port)


def _features(features: JsonObject) -> dict[str, tuple[int, int]]:
    ranges = {name: features.child(name) for name in features}
    return {name: (r.integer("min_version"), r.integer("max_version")) for name, r in ranges.items()}
