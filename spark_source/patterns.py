"""Names of groups and topics in a user's list: names or globs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,255}")


def is_topic_name(name: str) -> bool:
    """Return whether a broker of any version may have a topic of this name; 0.8 takes up to 255 characters."""
    return _TOPIC.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """Names and globs; an empty list matches every name. Case matters, as in ZooKeeper."""

    entries: tuple[str, ...] = ()

    def matches(self, name: str) -> bool:
        """Return whether an entry is the name, or a glob that matches it."""
        return not self.entries or any(_fits(name, entry) for entry in self.entries)

    def without_match(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the entries that match none of the names."""
        known = tuple(names)
        return tuple(entry for entry in self.entries if not any(_fits(name, entry) for name in known))


def _fits(name: str, entry: str) -> bool:
    # a group whose name is `a[1]` matches its own name, too
    return name == entry or fnmatchcase(name, entry)
