"""The system calls of the compiled loops, as numba calls them: without Python, and so without its lock.

What is kept of a compiled loop does not change with this file: a loop is compiled anew when its own file changes.
"""

from __future__ import annotations

from typing import Any

from numba.core import types

_types: Any = types

recv: Any = _types.ExternalFunction("recv", _types.intp(_types.int32, _types.uintp, _types.uintp, _types.int32))
send: Any = _types.ExternalFunction("send", _types.intp(_types.int32, _types.uintp, _types.uintp, _types.int32))
poll: Any = _types.ExternalFunction("poll", _types.int32(_types.uintp, _types.uintp, _types.int32))

POLLIN = 1
