"""Whether the native decoder is there, and the one that this package was made for."""

from __future__ import annotations

import importlib

VERSION = "0.1.0"
"""That of native/Cargo.toml. Another one may decode otherwise."""


def native_obstacle() -> str | None:
    """Why it cannot be used, and what to install."""
    try:
        module = importlib.import_module("legacy_consumer_native")
    except Exception as error:  # noqa: BLE001 - a module for another machine fails in its own way
        found = f"cannot be imported ({error})"
    else:
        version = getattr(module, "__version__", "a module without a version")
        if version == VERSION:
            return None
        found = f"is needed, not {version}"
    return f"legacy-consumer-native {VERSION} {found}: install it, or run make native in a clone"
