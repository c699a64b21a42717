import pytest

from zk_layout.codecs import decode_broker
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import Broker, Endpoint

PATH = "/brokers/ids/3"
H1 = Endpoint("PLAINTEXT", "PLAINTEXT", "h1", 9092)


@pytest.mark.parametrize(
    ("data", "broker"),
    [
        (
            b'{ "host":"h1", "jmx_port":-1, "port":9092, "timestamp":"1376439412000", "version":1 }',
            Broker(3, "h1", 9092, (H1,), 1, 1376439412000),
        ),
        (
            b'{"jmx_port":9999,"timestamp":"1428512949385","host":"h1","version":1,"port":9092}',
            Broker(3, "h1", 9092, (H1,), 1, 1428512949385, jmx_port=9999),
        ),
        (
            (
                b'{"jmx_port":-1,"timestamp":"1454312943000","endpoints":["PLAINTEXT://h1:9092"],"host":"h1",'
                b'"version":2,"port":9092}'
            ),
            Broker(3, "h1", 9092, (H1,), 2, 1454312943000),
        ),
        (
            (
                b'{"jmx_port":-1,"timestamp":"1464312943000","endpoints":["PLAINTEXT://h1:9092"],"host":"h1",'
                b'"version":3,"port":9092,"rack":"dc1"}'
            ),
            Broker(3, "h1", 9092, (H1,), 3, 1464312943000, rack="dc1"),
        ),
        (
            (
                b'{"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT","OUTSIDE":"SASL_SSL"},'
                b'"endpoints":["OUTSIDE://h1.example:9093","INTERNAL://h1:9092"],"jmx_port":-1,"host":"h1",'
                b'"timestamp":"1510000000000","port":9092,"version":4}'
            ),
            Broker(
                3,
                "h1",
                9092,
                (Endpoint("OUTSIDE", "SASL_SSL", "h1.example", 9093), Endpoint("INTERNAL", "PLAINTEXT", "h1", 9092)),
                4,
                1510000000000,
            ),
        ),
        (
            (
                b'{"features":{"feature":{"min_version":1,"max_version":3}},"listener_security_protocol_map":{"SSL":"SSL"},'
                b'"endpoints":["SSL://[2001:db8::1]:9093"],"jmx_port":-1,"port":-1,"host":null,"version":5,'
                b'"timestamp":"1614000000000"}'
            ),
            Broker(
                3,
                None,
                -1,
                (Endpoint("SSL", "SSL", "2001:db8::1", 9093),),
                5,
                1614000000000,
                features={"feature": (1, 3)},
            ),
        ),
    ],
)
def test_each_version_is_read(data, broker):
    assert decode_broker(PATH, data) == broker


def test_listeners_are_found_by_security_protocol():
    broker = decode_broker(
        PATH,
        b'{"version":4,"endpoints":["A://h1:1","B://h2:2","C://h3:3"],'
        b'"listener_security_protocol_map":{"A":"SSL","B":"PLAINTEXT","C":"PLAINTEXT"}}',
    )
    assert broker.endpoint("PLAINTEXT") == Endpoint("B", "PLAINTEXT", "h2", 2)
    assert broker.endpoint("SSL") == Endpoint("A", "SSL", "h1", 1)
    assert broker.endpoint("SASL_SSL") is None


def test_an_empty_host_and_lower_case_listeners_are_read():
    broker = decode_broker(PATH, b'{"version":2,"endpoints":["plaintext://:9092"]}')
    assert broker.endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "", 9092),)


def test_a_version_yet_unknown_is_read_as_the_last_known():
    data = b'{"version":6,"endpoints":["PLAINTEXT://h1:9092"],"news":[1.5,null]}'
    assert decode_broker(PATH, data) == Broker(3, "h1", 9092, (H1,), 6)


@pytest.mark.parametrize(
    ("data", "about"),
    [
        (b"127.0.0.1-1315436360737:127.0.0.1:9092", "Kafka 0.7"),
        (None, "empty"),
        (b"h1:9092", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"version":0,"host":"h1","port":9092}', "version is not 1 or above"),
        (b'{"version":true,"host":"h1","port":9092}', "version is not an integer"),
        (b'{"version":1,"port":9092}', "host is missing"),
        (b'{"version":1,"host":null,"port":9092}', "host is not a string"),
        (b'{"version":1,"host":"h1","port":65536}', "port is not a port"),
        (b'{"version":1,"host":"%s","port":9092}' % (b"h" * 256), "host is not a host's name"),
        (b'{"version":2,"endpoints":["PLAINTEXT://%s:1"]}' % (b"h" * 256), "LISTENER://host:port"),
        (b'{"version":1,"host":"h1","port":"9092"}', "port is not an integer"),
        (b'{"version":2,"host":"h1","port":9092}', "endpoints is missing"),
        (b'{"version":2,"endpoints":"PLAINTEXT://h1:9092"}', "endpoints is not a list of strings"),
        (b'{"version":2,"endpoints":["h1:9092"]}', "LISTENER://host:port"),
        (b'{"version":2,"endpoints":["PLAINTEXT://h1:99999"]}', "LISTENER://host:port"),
        (b'{"version":4,"endpoints":["A://h1:1"],"listener_security_protocol_map":{"B":"SSL"}}', "it lacks 'A'"),
        (b'{"version":4,"endpoints":["A://h1:1"],"listener_security_protocol_map":{"A":1}}', "map.A is not a string"),
        (b'{"version":1,"host":"h1","port":1,"features":{"f":{"min_version":1}}}', "features.f.max_version is missing"),
    ],
)
def test_other_data_is_malformed(data, about):
    with pytest.raises(MalformedZnodeError) as caught:
        decode_broker(PATH, data)
    assert about in caught.value.reason
    assert len(caught.value.reason) < 500
    assert (caught.value.path, caught.value.data) == (PATH, data)


def test_a_child_of_ids_that_is_no_broker_id_is_malformed():
    with pytest.raises(MalformedZnodeError, match="not a broker id"):
        decode_broker("/brokers/ids/x", b'{"version":1,"host":"h1","port":9092}')
