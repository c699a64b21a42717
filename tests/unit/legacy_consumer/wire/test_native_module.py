"""What is said of a native decoder that cannot be used: one line, with what to do."""

import sys
from types import SimpleNamespace

import pytest

from legacy_consumer.wire.native_module import VERSION, native_obstacle

TO_DO = "install it, or run make native in a clone"


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (SimpleNamespace(__version__="9.9.9"), "is needed, not 9.9.9"),
        (SimpleNamespace(), "is needed, not a module without a version"),
        (None, "cannot be imported (import of legacy_consumer_native halted; None in sys.modules)"),
    ],
)
def test_a_module_that_does_not_fit_is_named_with_what_to_do(monkeypatch, module, found):
    monkeypatch.setitem(sys.modules, "legacy_consumer_native", module)
    assert native_obstacle() == f"legacy-consumer-native {VERSION} {found}: {TO_DO}"


def test_the_module_of_this_version_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "legacy_consumer_native", SimpleNamespace(__version__=VERSION))
    assert native_obstacle() is None
