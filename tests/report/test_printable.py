"""Text for terminals: control characters, markup and endless names in paths and messages do no harm."""

import numpy as np

import fdcheck
from fdcheck.report.printable import printable, shortened

EVIL = "[red]k\x1b[2J\x07\r\n\u202e\u2028\x9b31m"


def test_control_characters_become_escapes():
    shown = printable(EVIL)
    assert shown == r"[red]k\x1b[2J\x07\r\n\u202e\u2028\x9b31m"
    assert printable("plain é 漢") == "plain é 漢"
    assert printable("\ud800") == r"\ud800"


def test_names_are_cut_in_the_middle():
    assert shortened("a" * 200) == "a" * 200
    assert shortened("a" * 500 + "b" * 500) == "a" * 100 + " ... " + "b" * 100


class Key:
    """A key whose repr is not its own."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text

    def __hash__(self):
        return hash(self.text)

    def __eq__(self, other):
        return isinstance(other, Key) and other.text == self.text


def texts():
    """Yield what is printed of structures and exceptions that hold such characters."""
    for key in (EVIL, Key(EVIL)):
        report = fdcheck.verify(lambda x, k=key: {k: x[k] ** 2}, {key: np.array([1.0, 2.0])},
                                vjp=lambda x, ct, k=key: {k: ct[k] * 3 * x[k]}, points=2)  # fmt: skip
        assert str(report.verdict) == "fail"
        yield str(report)
        yield str(fdcheck.differentiate(lambda x, k=key: {k: x[k] ** 2}, {key: np.array([1.0, 2.0])}))
        yield str(fdcheck.recommend_eps(lambda x, k=key: {k: x[k] ** 2}, {key: np.array([1.0, 2.0])}))

    def angry(*arguments):
        raise ValueError(EVIL)

    yield str(fdcheck.verify(np.sin, 1.0, vjp=angry))
    yield str(fdcheck.verify(angry, 1.0, vjp=angry))


def test_what_is_printed_holds_no_control_characters():
    for text in texts():
        assert all(line.isprintable() for line in text.split("\n")), text
        assert r"\x1b" in text


def test_endless_keys_and_messages_are_cut():
    key = "k" * 1_000_000
    x0 = {key + "a": 1.0, key + "b": 2.0}
    report = fdcheck.verify(
        lambda x: x[key + "a"] * x[key + "b"], x0, vjp=lambda x, ct: dict.fromkeys(x0, 3.0 * ct), points=1
    )
    assert len(str(report)) < 10_000
    assert len(report.to_json()) < 50_000
    paths = {pair.input for pair in report.pairs}
    assert len(paths) == 2  # still told apart
    for path in paths:
        assert fdcheck.verify(lambda x: x[key + "a"] * x[key + "b"], x0, vjp=lambda x, ct: dict.fromkeys(x0, 3.0),
                              input_paths=path).pairs[0].input == path  # fmt: skip

    def long_winded(x, ct):
        raise ValueError("m" * 1_000_000)

    assert len(str(fdcheck.verify(np.sin, 1.0, vjp=long_winded))) < 3_000


def test_keys_without_a_repr_are_named_by_their_type():
    class Silent(Key):
        def __repr__(self):
            raise RuntimeError("no repr")

        __hash__ = Key.__hash__

    key = Silent("k")
    report = fdcheck.verify(lambda x: x[key] ** 2, {key: 1.5}, vjp=lambda x, ct: {key: 3 * x[key] * ct})
    assert report.findings[0].input == "x[<Silent>]"
