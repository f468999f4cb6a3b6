"""fdcheck and the real ``check-gradients`` on the same Tesseracts in one process: verdicts, calls and seconds.

``python -m tests.adapters.side_by_side`` prints the tables; with ``docs/tesseract.rst`` it puts them into that page.
"""

from __future__ import annotations

import re
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
from tests.adapters.cases import CASES, THIRD_PARTY, Case, Ready

_SEED = 2
"""Of the Tesseract command, which draws with replacement; on a third of the seeds it misses one entry of 1000."""


@dataclass(frozen=True)
class Outcome:
    """Verdict, calls by endpoint and seconds of one checker."""

    verdict: str
    calls: Counter[str]
    seconds: float


def theirs(case: Case | Ready, folder: Path, **options: Any) -> Outcome:
    """Return what the Tesseract command finds."""
    module = load_module_from_path(case.write(folder))
    start = time.perf_counter()
    found = list(check_gradients(module, {"inputs": case.inputs}, seed=_SEED, show_progress=False, **options))
    seconds = time.perf_counter() - start
    verdict = "fail" if any(failures for _, failures, _ in found) else "pass"
    return Outcome(verdict, module.CALLS, seconds)


def ours(case: Case | Ready, folder: Path, **options: Any) -> tuple[Outcome, Any]:
    """Return what fdcheck finds, and its report."""
    module = load_module_from_path(case.write(folder))
    start = time.perf_counter()
    report = verify(module, case.inputs, **options)
    return Outcome(str(report.verdict), module.CALLS, time.perf_counter() - start), report


def rows(cases: tuple[Case | Ready, ...]) -> list[tuple[str, ...]]:
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


def _marked(verdict: str, case: Case | Ready) -> str:
    return verdict if verdict == case.verdict else f"**{verdict}**"


def table(cases: tuple[Case | Ready, ...]) -> str:
    """Return the table in reStructuredText."""
    heads = ("Tesseract", "right", "fdcheck", "check-gradients", "applies", "endpoint calls", "seconds, ratio")
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (heads, *rows(cases)):
        lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def with_tables(page: str, tables: list[str]) -> str:
    """Return a page with these tables instead of those that are in it."""
    pieces = re.split(r"(?m)^\.\. list-table::\n   :header-rows: 1\n\n(?:   .*\n)+", page)
    assert len(pieces) == 1 + len(tables), "the page has another number of such tables"
    return pieces[0] + "".join(text + piece for text, piece in zip(tables, pieces[1:], strict=True))


if __name__ == "__main__":
    for case in CASES[:1]:  # compiled kernels are loaded before anything is timed
        ours(case, Path(tempfile.mkdtemp()))
    found = [table(CASES), table(THIRD_PARTY)]
    if len(sys.argv) == 1:
        print("\n".join(found))
    for name in sys.argv[1:]:
        page = Path(name).read_text(encoding="utf-8")
        Path(name).write_text(with_tables(page, found), encoding="utf-8")
