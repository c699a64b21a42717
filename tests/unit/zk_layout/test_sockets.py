"""TLS to ZooKeeper: which authorities are trusted."""

from __future__ import annotations

import subprocess

import pytest

from zk_layout.errors import ConfigError
from zk_layout.settings import TlsSettings
from zk_layout.sockets import make_tls_context


def test_a_trust_store_of_ones_own_is_the_only_one_trusted(tmp_path):
    ca = tmp_path / "ca.pem"
    options = ["-newkey", "ed25519", "-nodes", "-keyout", str(tmp_path / "key.pem"), "-subj", "/CN=private"]
    subprocess.run(
        ["openssl", "req", "-x509", *options, "-out", str(ca), "-days", "1"], check=True, capture_output=True
    )
    [trusted] = make_tls_context(TlsSettings(ca=str(ca))).get_ca_certs()
    assert trusted["subject"] == ((("commonName", "private"),),)


def test_a_trust_store_that_cannot_be_read_is_named(tmp_path):
    nonsense = tmp_path / "ca.pem"
    nonsense.write_text("x")
    for path in (nonsense, tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.truststore\.location"):
            make_tls_context(TlsSettings(ca=str(path)))
