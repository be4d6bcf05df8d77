"""``python -m zcuda_async.cli``: the same as ``zcuda``."""

from __future__ import annotations

import sys

from zcuda_async.cli import main

sys.exit(main())
