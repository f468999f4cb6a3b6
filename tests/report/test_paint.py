"""Colours: what stands out, and that they change no letter."""

import numpy as np
import pytest

import fdcheck
from fdcheck.report.paint import painted


def styles(text):
    return {(span.style, painted(text).plain[span.start : span.end]) for span in painted(text).spans}


def test_a_failure_is_red_and_no_letter_changes():
    text = str(fdcheck.verify(np.sin, np.array([0.3]), vjp=lambda x, ct: ct))
    assert painted(text).plain == text
    assert {("bold red", "FAIL"), ("red", "disagrees"), ("red", "1 failure")} <= styles(text)


@pytest.mark.parametrize(("word", "style"), [("PASS", "bold green"), ("INCONCLUSIVE", "bold yellow")])
def test_each_verdict_has_its_colour(word, style):
    assert (style, word) in styles(f"{word}: something\n  vjp 0 failures / 3 checks")
    assert not any(found == "red" for found, _ in styles(f"{word}: something\n  vjp 0 failures / 3 checks"))


def test_words_of_the_user_are_no_markup():
    assert painted("a [bold]path[/bold] :smile:").plain == "a [bold]path[/bold] :smile:"
