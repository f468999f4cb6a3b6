"""fdcheck and the real ``check-gradients`` on the same Tesseracts in one process: verdicts, calls and seconds.

``python -m tests.adapters.side_by_side`` prints the table of docs/tesseract.rst; with a path it writes it there.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tesseract_core.runtime.core import load_module_from_path
from tesseract_core.runtime.testing.finite_differences import check_gradients

from fdcheck.adapters.tesseract import verify
from tests.adapters.cases import CASES, THIRD_PARTY, Case

_SEED = 2
"""Of the Tesseract command, which draws with replacement; on a third of the seeds it misses one entry of 1000."""


@dataclass(frozen=True)
class Outcome:
    """Verdict, calls by endpoint and seconds of one checker."""

    verdict: str
    calls: Counter[str]
    seconds: float


def theirs(case: Case, folder: Path, **options: Any) -> Outcome:
    """Return what the Tesseract command finds."""
    module = load_module_from_path(case.write(folder))
    start = time.perf_counter()
    found = list(check_gradients(module, {"inputs": case.inputs}, seed=_SEED, show_progress=False, **options))
    seconds = time.perf_counter() - start
    verdict = "fail" if any(failures for _, failures, _ in found) else "pass"
    return Outcome(verdict, module.CALLS, seconds)


def ours(case: Case, folder: Path, **options: Any) -> tuple[Outcome, Any]:
    """Return what fdcheck finds, and its report."""
    module = load_module_from_path(case.write(folder))
    start = time.perf_counter()
    report = verify(module, case.inputs, **options)
    return Outcome(str(report.verdict), module.CALLS, time.perf_counter() - start), report


def rows(cases: tuple[Case, ...]) -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        for number, case in enumerate(cases):
            folder = Path(place) / str(number)
            other, (own, _) = theirs(case, folder), ours(case, folder)
            ends = [sum(n for name, n in o.calls.items() if name != "apply") for o in (own, other)]
            found.append(
                (
                    case.name,
                    case.verdict,
                    _marked(own.verdict, case),
                    _marked(other.verdict, case),
                    f"{own.calls['apply']} / {other.calls['apply']}",
                    f"{ends[0]} / {ends[1]}",
                    f"{own.seconds / other.seconds:.1f}",
                )
            )
    return found


def _marked(verdict: str, case: Case) -> str:
    return verdict if verdict == case.verdict else f"**{verdict}**"


def table(cases: tuple[Case, ...]) -> str:
    """Return the table in reStructuredText."""
    heads = ("Tesseract", "right", "fdcheck", "check-gradients", "applies", "endpoint calls", "seconds, ratio")
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (heads, *rows(cases)):
        lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for case in CASES[:1]:  # compiled kernels are loaded before anything is timed
        ours(case, Path(tempfile.mkdtemp()))
    text = table(CASES) + "\n" + table(THIRD_PARTY)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        print(text)
