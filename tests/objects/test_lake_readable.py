"""What readers of a lake are told where its bucket doesn't answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.model.errors import LakeUnreadable
from lakemq.storage.lake.certain import CertainLake
from lakemq.storage.lake.delta_files import DeltaFiles
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in


def test_a_bucket_that_is_away_is_a_lake_that_can_not_be_read(tmp_path: Path) -> None:
    gone = ObjectStore()
    gone.close()
    lake = path_in(gone, "s3://bucket/lake", tmp_path)
    with pytest.raises(LakeUnreadable, match="s3://bucket/lake/messages"):
        DeltaFiles(lake / "messages", "broker-a").version(0)
    assert "can't be read" in str(CertainLake(lake, "broker-a").look().why)
