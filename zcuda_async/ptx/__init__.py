"""PTX: text in, typed instructions out.

`parse` reads a module; `TABLE` describes the instruction set, one row per form of an opcode;
`row_of` and `destinations` look a parsed instruction up in it.
"""

from __future__ import annotations

from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.parser import parse
from zcuda_async.ptx.table import TABLE, destinations, row_of
from zcuda_async.ptx.table_syntax import Row

__all__ = ("TABLE", "PtxError", "Row", "destinations", "parse", "row_of")
