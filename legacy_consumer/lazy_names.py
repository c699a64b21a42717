"""A package whose names are imported when they are first used, so that a command waits only for what it needs."""

import sys
from collections.abc import Callable, Collection, Sequence
from importlib import import_module


def lazy_names(
    package: str, names: Collection[str], modules: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package (PEP 562).

    names: what it exports. modules: where those are, in the order in which they are looked through: the cheap first.
    """

    def __getattr__(name: str) -> object:  # noqa: N807 - what the package's own is to be called
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
