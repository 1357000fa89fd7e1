"""Common mistakes of multi-head attention: each a broken forward that runs beside the right one."""

from mha_core.mistakes.bench import Bench
from mha_core.mistakes.causal import CAUSAL
from mha_core.mistakes.examine import Finding, Outcome, examine, examine_all
from mha_core.mistakes.layout import LAYOUT
from mha_core.mistakes.numbers import NUMBERS
from mha_core.mistakes.padding import PADDING
from mha_core.mistakes.reading import READING
from mha_core.mistakes.records import Mistake

# In the order in which a forward meets them; loud and silent ones mixed, as in life.
GROUPS: dict[str, tuple[Mistake, ...]] = {
    "layout": tuple(make() for make in LAYOUT),
    "masks": tuple(make() for make in (*PADDING, *CAUSAL)),
    "numbers": tuple(make() for make in NUMBERS),
    "use": tuple(make() for make in READING),
}
MISTAKES: dict[str, Mistake] = {
    mistake.id: mistake for group in GROUPS.values() for mistake in group
}

__all__ = [
    "GROUPS",
    "MISTAKES",
    "Bench",
    "Finding",
    "Mistake",
    "Outcome",
    "examine",
    "examine_all",
]
