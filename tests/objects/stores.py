"""How tests reach a store of objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakemq.objects.path import ObjectPath
from lakemq.settings import Lake, LakeStorage
from lakemq.testing.object_store import ObjectStore


def reached(store: ObjectStore) -> dict[str, Any]:
    """As `lake.storage` says it."""
    keys = {"access_key_id": "any", "secret_access_key": "any"}
    return {"endpoint": store.address, "region": "us-east-1", "allow_http": True, **keys}


def lake_in(store: ObjectStore, url: str, work_dir: Path, **options: Any) -> Lake:
    """The settings of a lake at that URL of the store."""
    return Lake.model_validate({"dir": url, "storage": LakeStorage(**reached(store)), "work_dir": work_dir, **options})


def path_in(store: ObjectStore, url: str, work_dir: Path) -> ObjectPath:
    """The same as a path."""
    found = lake_in(store, url, work_dir).dir
    assert isinstance(found, ObjectPath)
    return found
