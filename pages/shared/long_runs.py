"""q and k of runs too long to be traced, kept for a while."""

from __future__ import annotations

import torch
from torch import Tensor

from mha_core import MultiHeadAttention
from mha_core.blockwise import LongMaps
from mha_core.blockwise.project import check_long
from mha_core.blockwise.project import maps_of as project
from mha_core.inputs import build_module, random_input, text_input
from pages.shared import own_weights, runs
from pages.shared.choice import Choice, Weights
from pages.shared.store import store

# Cells of all maps of one step up to which a run is traced whole, as the home page does.
_WHOLE = 2**24


def is_long(choice: Choice) -> bool:
    """Whether the maps are computed block by block. Those of a model are as long as its texts."""
    config = choice.config
    plain = choice.origin is None or isinstance(choice.origin, Weights)
    return plain and config.batch * config.heads * config.time**2 > _WHOLE


def check(choice: Choice) -> None:
    """Refuses maps that do not fit the memory, before anything is allocated."""
    if is_long(choice):
        check_long(choice.config)
    else:
        runs.check(choice)


def maps_of(choice: Choice, item: int) -> LongMaps:
    """q, k and what is masked, of one batch item."""

    def make() -> LongMaps:
        module, x = _run(choice)
        return project(choice.config, module, x, item)

    found: LongMaps = store("traces").get(
        (choice, item, "q and k"), make, lambda made: made.q.nbytes + made.k.nbytes
    )
    return found


def dtype(choice: Choice) -> torch.dtype:
    """Of long maps: that of the run, or float32 where that is half of it."""
    return torch.float64 if choice.config.dtype == "float64" else torch.float32


def _run(choice: Choice) -> tuple[MultiHeadAttention, Tensor]:
    """The module, and x of all batch items: a random one depends on their number."""
    config = choice.config
    made = isinstance(choice.origin, Weights)
    module = own_weights.made(choice.origin) if made else build_module(config)  # type: ignore[arg-type]
    module = module.eval()
    x = random_input(config) if choice.tokens is None else text_input(config, choice.tokens)
    return module, x
