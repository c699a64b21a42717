"""The columnar fetchers with the native decoder, for tests of every fetcher."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

from legacy_consumer.fetching.columnar import ColumnarFetchers

NATIVE = pytest.mark.skipif(
    importlib.util.find_spec("legacy_consumer_native") is None,
    reason="the crate in native/ is not built: `make native`",
)


class NativeFetchers(ColumnarFetchers):
    """Fetchers as with fetcher=native."""

    def __init__(self, config, store):
        super().__init__(replace(config, fetcher="native"), store)
