"""Receipts and the ids of transactions: whose they are, and what survives."""

from __future__ import annotations

import pytest

from lakemq.model.errors import LogVersion
from lakemq.model.ids import NONCE_DIGITS, split_nonce
from lakemq.storage.segment.frame import LogEpoch
from lakemq.storage.state.log_identity import LogIdentity, new_log_id
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.secret_ids import SecretIds


def opened(identity: LogIdentity) -> SecretIds:
    ids = MessageIds("b")
    ids.open(identity)
    secret_ids = SecretIds(ids)
    secret_ids.open(identity)
    return secret_ids


@pytest.fixture
def identity() -> LogIdentity:
    made = LogIdentity()
    made.begin(LogEpoch(new_log_id(), 1), 0)
    return made


def test_an_id_is_found_again_and_no_other_text_is(identity: LogIdentity) -> None:
    ids = opened(identity)
    for position in (0, 1, 7, 8, 9, 2**40):
        text = ids.of(position)
        assert ids.find(text) == position
        message_id, nonce = split_nonce(text)
        assert len(nonce) == NONCE_DIGITS
        others = [ids.of(position + each) for each in range(1, 20)]
        assert len({split_nonce(each)[1] for each in [text, *others]}) == 20
        wrong = "0" if nonce[-1] != "0" else "1"
        for other in (message_id, f"{message_id}-", text[:-1], text[:-1] + wrong, text + "0", text.upper(), text + "é"):
            assert ids.find(other) is None
        assert ids.find(f"{split_nonce(others[0])[0]}-{nonce}") is None


def test_the_same_log_knows_its_ids_after_a_start_and_a_new_epoch(identity: LogIdentity) -> None:
    text = opened(identity).of(42)
    again = LogIdentity()
    again.restore(identity.dump())
    again.begin(LogEpoch(identity.now.log_id, 2), 1_000)
    assert opened(again).find(text) == 42


def test_a_log_with_the_same_key_and_another_id_has_other_nonces(identity: LogIdentity) -> None:
    """As a restored one has."""
    nonce = opened(identity).nonce(42)
    dumped = identity.dump()
    identity.begin(LogEpoch(new_log_id(), 1), 0)
    again = LogIdentity()
    again.restore({**dumped, "id": identity.log_id})
    assert again.key == identity.key
    assert opened(again).nonce(42) != nonce


def test_a_log_without_a_key_is_refused() -> None:
    with pytest.raises(LogVersion, match="nonces"):
        LogIdentity().restore({"id": str(new_log_id()), "epochs": [[1, 0]]})
