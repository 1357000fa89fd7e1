"""All mistakes in one table: what gives each away, how much it changes, and its repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from mha_core.mistakes.examine import Betrayed, Finding
from mha_core.tables import shape_text

# What the table says of each.
GIVES_AWAY: dict[Betrayed, str] = {
    "error": "torch raises",
    "shape": "a shape",
    "nothing": "values only",
    "no change": "no change",
}


def frame(findings: Sequence[Finding]) -> pd.DataFrame:
    """One row a mistake. Shapes are text; where one forward raised, its cells are empty."""
    return pd.DataFrame([_row(finding) for finding in findings])


def _row(finding: Finding) -> dict[str, object]:
    mistake = finding.mistake
    return {
        "mistake": mistake.title,
        "shapes alone reveal it": "yes" if finding.betrayed == "shape" else "no",
        "what gives it away": GIVES_AWAY[finding.betrayed],
        "torch says": finding.wrong.error,
        "wrong shapes": _shapes(finding.wrong.shapes),
        "right shapes": _shapes(finding.right.shapes),
        "largest change of output": finding.change,
        "largest change of weights": finding.weight_change,
        "numbers that are not finite": finding.wrong.not_finite,
        "check on wrong": "fails" if finding.caught else "holds",
        "check on right": "holds" if finding.passed else "fails",
        "fix": mistake.fix,
        "seen in": " ".join(mistake.seen_in),
    }


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join(shape_text(shape) for shape in shapes)


def in_words(findings: Sequence[Finding]) -> str:
    """How many of them shapes reveal, in a sentence or two."""
    count = Counter(finding.betrayed for finding in findings)
    said = [
        f"Shapes alone reveal {count['shape']} of {len(findings)}",
        f"torch refuses {count['error']}",
        f"{count['nothing']} run through with every shape right",
    ]
    if count["no change"]:
        said.append(f"{count['no change']} change nothing at these sizes")
    return "; ".join(said) + "."
