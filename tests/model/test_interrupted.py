from __future__ import annotations

import pytest

from lakemq.model.interrupted import was_interrupted


def tidied_up_badly() -> None:
    try:
        raise KeyboardInterrupt
    finally:
        raise AttributeError("'NoneType' object has no attribute 'sendall'")


def test_what_is_raised_in_an_interrupt_s_place_is_one() -> None:
    with pytest.raises(AttributeError) as raised:
        tidied_up_badly()
    assert was_interrupted(raised.value)
    later = ValueError("later")
    later.__cause__ = raised.value
    assert was_interrupted(later)
    assert was_interrupted(KeyboardInterrupt())


def test_other_errors_are_none() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    assert not was_interrupted(first)
    assert not was_interrupted(ValueError("alone"))
