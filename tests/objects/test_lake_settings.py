"""What the settings of a lake say, and what they keep to themselves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lakemq.model.errors import SettingsError
from lakemq.objects.path import beside
from lakemq.settings import load

KEY, SECRET, TOKEN = "AKIAOURS", "s3cr3t-of-ours", "t0k3n-of-ours"
BUCKET = "s3://bucket/lake"
KEYS = {"access_key_id": KEY, "secret_access_key": SECRET, "session_token": TOKEN}


def faulty() -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """Settings that are refused, which have keys, and the environment."""
    http, no_tls = {**KEYS, "endpoint": "http://store:9000"}, {"AWS_ENDPOINT_URL": "http://store:9000"}
    as_json = json.dumps(KEYS)
    return {
        "http": ({"dir": BUCKET, "storage": http}, {}),
        "http by the environment": ({"dir": BUCKET, "storage": KEYS}, no_tls),
        "one key of two": ({"dir": BUCKET, "storage": {"secret_access_key": SECRET, "session_token": TOKEN}}, {}),
        "no JSON": ({"dir": BUCKET}, {"LAKEMQ_LAKE__STORAGE": as_json[:-1]}),
        "no object of JSON": ({"dir": BUCKET}, {"LAKEMQ_LAKE__STORAGE": json.dumps(list(KEYS.values()))}),
        "a key of another type": ({"dir": BUCKET, "storage": {**KEYS, "session_token": [TOKEN]}}, {}),
        "a user in the address": ({"dir": BUCKET, "storage": {"endpoint": f"https://{KEY}:{SECRET}@store"}}, {}),
        "a user in the folder": ({"dir": f"s3://{KEY}:{SECRET}@bucket/lake"}, {}),
        "another fault of the section": ({"dir": BUCKET, "storage": KEYS, "merge_files": 1}, {}),
    }


@pytest.mark.parametrize("which", faulty())
def test_no_key_is_shown_with_a_fault(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, environment = faulty()[which]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        load(None, environment, {"lake": values})
    said = str(refused.value) + repr(refused.value) + str(refused.value.__cause__)
    assert "lake" in said
    assert [secret for secret in (KEY, SECRET, TOKEN) if secret in said] == []


def test_a_plain_value_is_shown_with_its_fault() -> None:
    with pytest.raises(SettingsError, match="got 1"):
        load(None, {}, {"lake": {"merge_files": 1}})


def test_a_bucket_without_what_reads_it_is_refused_as_the_settings_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    load(None, {}, {"lake": {"dir": "lake"}})
    with pytest.raises(SettingsError, match=r"lakemq\[object-store\]"):
        load(None, {}, {"lake": {"dir": BUCKET}})


def test_the_local_folder_is_the_same_wherever_it_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: set[Path] = set()
    for folder in (Path("/"), tmp_path):
        monkeypatch.chdir(folder)
        found.add(beside(load(None, {}, {"lake": {"dir": BUCKET}}).lake.dir))
    assert len(found) == 1
    with pytest.raises(SettingsError, match="absolute path"):
        load(None, {}, {"lake": {"dir": BUCKET, "work_dir": "work"}})


@pytest.mark.parametrize("place", ["S3://b/l", "s3:b/l", "oss://b/l", "gcs://b/l", "gs:/b/l", "file:///l"])
def test_what_is_meant_for_another_store_is_no_local_folder(place: str) -> None:
    with pytest.raises(SettingsError, match="a lake is in a folder, or in s3://bucket/prefix"):
        load(None, {}, {"lake": {"dir": place}})
