"""The words of a check: verdicts, and statuses with their meaning and what to do."""

from __future__ import annotations

import enum
from typing import Self


class Verdict(enum.StrEnum):
    """The answer of a whole check."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Status(enum.StrEnum):
    """What was found for one entry, or which part of its contract an endpoint breaks.

    ``status.meaning`` says it in a sentence, ``status.advice`` says what to do next.
    """

    meaning: str
    advice: str

    def __new__(cls, word: str, meaning: str, advice: str) -> Self:
        """Make a member whose value is its word."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        member.advice = advice
        return member

    AGREES = "agrees", "The claim lies within tolerance and error bar of the measured derivative.", ""
    KINK = (
        "kink",
        "x0 lies at a kink; the claim lies between the one-sided slopes and is accepted as a subgradient.",
        "Nothing has to be done; check beside the kink to test each side on its own.",
    )
    JUMP = (
        "jump",
        "apply jumps at x0; the claim is the slope of one of the two sides and is accepted.",
        "Move x0 off the jump: there is no derivative at it.",
    )
    DISAGREES = (
        "disagrees",
        "The claim lies outside of tolerance and error bar of the measured derivative.",
        "Correct the code that computes this entry.",
    )
    UNDECIDED = (
        "undecided",
        "The measurement is too poor to say whether the claim is right.",
        "Reduce the noise of apply (tighter solver tolerance, float64), widen rtol, or move x0.",
    )
    NONFINITE = (
        "nonfinite",
        "apply gave NaN, an infinity or an exception, so nothing could be measured.",
        "Move x0 to where apply is finite, or set bounds.",
    )
    STRUCTURE = (
        "structure",
        "The endpoint returned a structure other than the one its convention asks for.",
        "Return the structure that the message shows.",
    )
    SHAPE = (
        "shape",
        "An array of the endpoint has another shape than its convention asks for; nothing is broadcast.",
        "Return an array of exactly that shape.",
    )
    DTYPE = (
        "dtype",
        "An array of the endpoint has a narrower dtype, or one of another kind, than the value it belongs to.",
        "Compute the derivative in the precision of the value.",
    )
    RAISED = (
        "raised",
        "A callable raised an exception.",
        "Correct the callable at the file and line that the message names.",
    )
    MUTATION = (
        "mutation",
        "A callable changed its arguments in place.",
        "Work on a copy inside the callable.",
    )
    NONLINEAR = (
        "nonlinear",
        "The answer to a sum of vectors is not the sum of the answers to each: it is no product with a Jacobian.",
        "Add the terms of all inputs or outputs, each linear in its own tangent or cotangent.",
    )
    NONDETERMINISTIC = (
        "nondeterministic",
        "A callable gave two different results at the same point.",
        "Fix the random seed inside it, or check its expectation.",
    )
    LAYOUT = (
        "layout",
        "The endpoint answers differently when the same tangent or cotangent lies otherwise in memory.",
        "Do not assume contiguous memory: make a contiguous copy, or index without strides.",
    )
    ADJOINT = (
        "adjoint",
        "jvp and vjp contradict each other: <w, J v> is not <J^T w, v>.",
        "Compare both with the measured derivative to see which one is wrong.",
    )
    BATCHED = (
        "batched",
        "The answer to a stack of tangents or cotangents is not the stack of the answers to each.",
        "Make the derivative independent of further leading axes, or do not batch it.",
    )
    ASYMMETRIC = (
        "asymmetric",
        "A second derivative is not symmetric, as every Hessian is where it is continuous.",
        "Look for a term that was differentiated in one order only.",
    )


_OF_ENTRIES = {Status.AGREES, Status.DISAGREES, Status.KINK, Status.JUMP, Status.UNDECIDED, Status.NONFINITE}
BREACHES = frozenset(Status) - _OF_ENTRIES
"""Statuses of an endpoint that broke its contract."""
