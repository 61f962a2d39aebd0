"""Keep pandas out of the gateway's process.

pyarrow imports pandas, where it is installed, the first time it is handed a Python object: that
costs 60 MB and a second's standstill, for nothing that the gateway needs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is kept out of the gateway")
        return None


def keep_pandas_out() -> None:
    """Make `import pandas` fail from now on, unless it was imported before."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())
