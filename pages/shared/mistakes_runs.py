"""The mistakes, run on what is in view and kept: each alone, or all."""

from __future__ import annotations

from mha_core.mistakes import MISTAKES, Bench, Finding, bench, examine
from pages.shared import runs
from pages.shared.choice import Choice
from pages.shared.store import store


def laid_out(choice: Choice) -> Bench:
    """A module and input of the choice, small enough to run every mistake on."""

    def make() -> Bench:
        if choice.origin is None:
            return bench.seeded(choice.config, choice.tokens)
        lengths = None if choice.words is None else choice.words.lengths
        return bench.of_trace(runs.trace(choice), lengths)

    found: Bench = store("mistakes").get((choice, "bench"), make, _bench_bytes)
    return found


def finding(choice: Choice, mistake: str) -> Finding:
    """What a mistake does there."""

    def make() -> Finding:
        ready = laid_out(choice)
        return examine(MISTAKES[mistake], ready.module, ready.x, seed=choice.config.seed)

    found: Finding = store("mistakes").get((choice, mistake), make, lambda made: made.nbytes)
    return found


def _bench_bytes(made: Bench) -> int:
    weights = sum(parameter.nbytes for parameter in made.module.parameters())
    return int(weights + made.x.nbytes)
