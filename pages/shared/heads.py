"""Maps to look at, wherever they come from: a trace, a model's own, a file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from mha_core import Trace
from mha_core.attention_maps import given_maps
from mha_core.maps import HeadMaps, head_maps
from mha_core.steps import MAP_STEPS, map_name
from mha_core.token_view import hide, without_padding
from pages.shared import own_maps, retraced
from pages.shared.choice import Choice, Given, Words


@dataclass(frozen=True)
class Heads:
    """The maps of all heads.

    Attributes:
        key: what they follow from.
        steps: name of each kind of map -> its step.
        batch, heads, time: of the maps.
        words: the tokens of a real model's input.
        maps: (step, batch item) -> all heads, (h, time, time).
        labels: batch item -> its tokens, legible; None where positions are numbered.
    """

    key: Hashable
    steps: dict[str, str]
    batch: int
    heads: int
    time: int
    words: Words | None
    maps: Callable[[str, int], HeadMaps]
    labels: Callable[[int], Sequence[str] | None]

    def shown(self, step: str, item: int, *, plain: bool) -> HeadMaps:
        """Of a real model's maps, the tokens looked at: no padding, and `plain` no special ones."""
        return self.without(self.maps(step, item), item, plain=plain)

    def without(self, found: HeadMaps, item: int, *, plain: bool) -> HeadMaps:
        """Maps of a batch item without its padding and, `plain`, its special tokens."""
        if self.words is None:
            return found
        left = without_padding(found, self.words.lengths[item])
        return hide(left, self._kept(item)) if plain else left

    def names(self, item: int, *, plain: bool) -> Sequence[str] | None:
        """The labels of what `shown` gives."""
        labels = self.labels(item)
        return [labels[n] for n in self._kept(item)] if labels and plain else labels

    def _kept(self, item: int) -> list[int]:
        """Positions of the tokens that are not special; all, where there is no other."""
        assert self.words is not None
        special = self.words.special[item]
        return [n for n, flag in enumerate(special) if not flag] or list(range(len(special)))


def of_trace(choice: Choice, trace: Trace) -> Heads:
    """The maps of a run."""
    config = trace.config
    return Heads(
        choice,
        {map_name(step): step for step in MAP_STEPS if step in trace},
        config.batch,
        config.heads,
        config.time,
        choice.words,
        lambda step, item: head_maps(trace, step, item),
        choice.labels,
    )


def of_given(given: Given) -> Heads:
    """Weights alone: a file's, or those of a model's layer that is not plain."""
    source = given.source

    def maps(_step: str, item: int) -> HeadMaps:
        if isinstance(source, tuple):
            return own_maps.maps(given, item)
        return given_maps(retraced.captured(source).weights.float(), item)

    return Heads(
        given,
        {"weights": "softmax"},
        given.batch,
        given.heads,
        given.time,
        given.words,
        maps,
        given.labels,
    )
