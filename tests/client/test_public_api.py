"""What users of the client may rely on changes on purpose only."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.public_api import MODULES, describe

PINNED = Path(__file__).with_name("public_api.txt")


def test_the_public_api_is_the_pinned_one() -> None:
    assert describe() == PINNED.read_text(), "see tests/client/public_api.py to pin it anew"


def test_both_faces_have_the_same_names_and_methods() -> None:
    plain, with_asyncio = (importlib.import_module(name) for name in MODULES)
    assert plain.__all__ == with_asyncio.__all__
    for name in plain.__all__:
        kinds = [getattr(module, name) for module in (plain, with_asyncio)]
        if not all(map(inspect.isclass, kinds)) or kinds[0] is kinds[1] or name == "SendFuture":
            continue
        first, second = ({each for each in dir(kind) if not each.startswith("_")} for kind in kinds)
        assert first == second, name


@pytest.mark.parametrize("module", MODULES)
def test_the_client_imports_neither_spark_nor_a_web_framework(module: str) -> None:
    everything = f"import sys, {module} as m; [getattr(m, name) for name in m.__all__]; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", everything], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    unwanted = ("pyspark", "delta", "fastapi", "starlette", "uvicorn", "pandas", "lakemq.storage", "lakemq.settings")
    assert not loaded.intersection(unwanted)
