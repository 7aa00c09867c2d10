"""A message is one paragraph whatever names it holds."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odin.errors import InputError, OdinError, RunError


@given(st.text(st.characters()))  # of every category: line breaks, controls, lone surrogates
def test_a_message_is_one_printable_paragraph(message: str) -> None:
    told = str(InputError(message))
    assert told.isprintable()
    assert (told == message) == message.isprintable()
    told.encode()  # a lone surrogate of an undecodable file name cannot be printed


@pytest.mark.parametrize("kind", [InputError, RunError])
def test_it_survives_a_process(kind: type[OdinError]) -> None:
    error = pickle.loads(pickle.dumps(kind("Image 'a\nb.png' is empty.")))
    assert (type(error), str(error)) == (kind, r"Image 'a\nb.png' is empty.")
