"""Tests of a model's gradient, with the fixture that fdcheck brings to pytest."""

import pytest


def growth(x):
    return x["rate"] * x["size"] * (1 - x["size"] / x["room"])


def growth_vjp(x, ct):
    rate, size, room = x["rate"], x["size"], x["room"]
    return {
        "rate": ct * size * (1 - size / room),
        "size": ct * rate * (1 - size / room),  # the second factor has size too
        "room": ct * rate * (size / room) ** 2,
    }


POINT = {"rate": 0.4, "size": 2.0, "room": 10.0}


def test_by_rate_and_room(fdcheck):
    fdcheck.verify(growth, POINT, vjp=growth_vjp, input_paths=["r*"])


@pytest.mark.fdcheck(profile="strict")
def test_by_all(fdcheck):
    fdcheck.verify(growth, POINT, vjp=growth_vjp)
