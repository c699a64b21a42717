"""Imports the names of a package when they are first used: a command loads only the modules that it needs."""

import sys
from collections.abc import Callable, Collection, Sequence
from importlib import import_module


def lazy_names(
    package: str, names: Collection[str], modules: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package (PEP 562).

    names: the names that the package exports. modules: the modules that define them, in the order of the search; those
    that load fast come first.
    """

    def __getattr__(name: str) -> object:  # noqa: N807 - PEP 562 demands this name
        if name in names:
            for module in modules:
                found = vars(import_module(module))
                if name in found:
                    setattr(sys.modules[package], name, found[name])
                    return found[name]
        msg = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(msg)

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*vars(sys.modules[package]), *names})

    return __getattr__, __dir__
