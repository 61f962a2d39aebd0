"""What the client says of dead letters, against the model."""

from __future__ import annotations

from typing import get_args

from lakemq.client.dead_letter import DeadLetterState
from lakemq.model.dead_letter import LetterState


def test_the_states_are_the_models() -> None:
    assert get_args(DeadLetterState) == tuple(LetterState)
