"""Whose keys are sent to a bucket."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.model.errors import SettingsError
from lakemq.objects.bucket import Access, Bucket
from lakemq.settings import load
from lakemq.testing import object_store
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import reached

OURS: dict[str, Any] = {"access_key_id": "OURS", "secret_access_key": "ours"}


def test_no_token_of_the_environment_is_sent_with_keys_of_ours(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "THEIRS")
    sent = _sent(monkeypatch)
    Bucket("keys", Access(**reached(object_store) | OURS)).store.put("object", b"")
    Bucket("keys", Access(**reached(object_store) | OURS, session_token="TOKEN")).store.put("object", b"")
    assert [("OURS" in authorization, token) for authorization, token in sent] == [(True, None), (True, "TOKEN")]
    assert "THEIRS" not in str(sent)


def test_keys_of_ours_beside_a_token_of_the_environment_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """delta-rs would send it, and can't be told otherwise."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "THEIRS")
    lake: dict[str, object] = {"dir": "s3://bucket/lake", "storage": OURS}
    with pytest.raises(SettingsError, match="start without AWS_SESSION_TOKEN") as refused:
        load(None, {}, {"lake": lake})
    assert "THEIRS" not in str(refused.value)
    load(None, {}, {"lake": {**lake, "storage": {**OURS, "session_token": "ours"}}})
    load(None, {}, {"lake": {"dir": "lake", "storage": OURS}})


def _sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """Of each request to come who asks, and with which token."""
    sent: list[tuple[str, str | None]] = []
    handler = object_store._Handler  # pyright: ignore[reportPrivateUsage]
    put = handler.do_PUT

    def noted(self: object_store._Handler) -> None:  # pyright: ignore[reportPrivateUsage]
        sent.append((self.headers["Authorization"] or "", self.headers["x-amz-security-token"]))
        put(self)

    monkeypatch.setattr(handler, "do_PUT", noted)
    return sent
