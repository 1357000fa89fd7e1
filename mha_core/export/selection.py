"""What to export, checked against what ran."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.config import MHAConfig
from mha_core.errors import ConfigError
from mha_core.export.labels import labels
from mha_core.maps import SCALES
from mha_core.palette import Mode
from mha_core.steps import MAP_STEPS, STEPS, map_name
from mha_core.trace import Trace

# Called with the share done, 0 to 1, and what is being written.
Progress = Callable[[float, str], None]

# Tensor name -> step, for the (query, key) maps, which every format takes ...
MAPS: dict[str, str] = {map_name(step): step for step in MAP_STEPS}
# ... and for the others, which only the array formats take.
ARRAYS: dict[str, str] = {
    "input": "input",
    "q": "transpose_q",
    "k": "transpose_k",
    "v": "transpose_v",
    "output": "output",
}
TENSORS: dict[str, str] = MAPS | ARRAYS
MODES: tuple[Mode, ...] = ("light", "dark")

_ABSENT = {"mask": "no mask is set", "dropout": "dropout is 0"}


@dataclass(frozen=True)
class Selection:
    """Tensors by name (see `TENSORS`), heads and batch items by index; None for all.

    "after dropout" may also be written "after_dropout".
    """

    tensors: tuple[str, ...] = ("weights",)
    heads: tuple[int, ...] | None = None
    items: tuple[int, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The tensor names as `TENSORS` has them."""
        return tuple(name.replace("_", " ") for name in self.tensors)

    @property
    def steps(self) -> tuple[str, ...]:
        """Ids of the steps whose tensors are needed: what a trace must keep.

        Raises:
            ConfigError: no tensor, an unknown one, or one named twice.
        """
        _check_tensors(self)
        return tuple(TENSORS[name] for name in self.names)

    def map_count(self, config: MHAConfig) -> int:
        """(query, key) maps of a run of `config`: tensors × items × heads.

        Raises:
            ConfigError: no map is selected: figures and rows are drawn from maps.
        """
        names = [name for name in self.names if name in MAPS]
        if not names:
            raise ConfigError(
                "tensors",
                self.names,
                "must have a map over (query, key) for this format",
                works=f"These work: {', '.join(MAPS)}; npz and safetensors take any tensor",
            )
        items = config.batch if self.items is None else len(self.items)
        heads = config.heads if self.heads is None else len(self.heads)
        return len(names) * items * heads

    def check(self, config: MHAConfig, ran: Collection[str] | None = None) -> None:
        """Refuses what a run of `config` does not have.

        Args:
            config: gives the ranges of heads and items.
            ran: ids of the steps that ran; those `config` alone leads to when None, so that a
                selection can be refused before the run.

        Raises:
            ConfigError: naming the tensor or index and what would work.
        """
        if ran is None:
            absent = {"mask"} if not config.causal else set()
            absent |= {"dropout"} if config.dropout == 0.0 else set()
            ran = set(STEPS) - absent
        for name, step in zip(self.names, self.steps, strict=True):
            if step not in ran:
                offered = [name for name, step in TENSORS.items() if step in ran]
                raise ConfigError(
                    "tensors",
                    name,
                    f"the step did not run: {_ABSENT.get(step, 'it is not in this trace')}",
                    works=f"These work: {', '.join(offered)}",
                )
        _check_indices("heads", self.heads, config.heads)
        _check_indices("items", self.items, config.batch)


def _check_tensors(selection: Selection) -> None:
    works = f"These work: {', '.join(TENSORS)}"
    if not selection.tensors:
        raise ConfigError("tensors", (), "must name at least one tensor", works=works)
    for name in selection.names:
        if name not in TENSORS:
            raise ConfigError("tensors", name, "is not a tensor offered here", works=works)
    if len(set(selection.names)) < len(selection.names):
        raise ConfigError("tensors", selection.tensors, "must name each tensor once")


def _check_indices(field: str, indices: tuple[int, ...] | None, count: int) -> None:
    if indices is None:
        return
    works = f"These work: {'0' if count == 1 else f'0 to {count - 1}'}"
    if not indices:
        raise ConfigError(field, (), "must name at least one index", works=works)
    wrong = tuple(
        index
        for index in indices
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count
    )
    if wrong:
        value = wrong[0] if len(wrong) == 1 else wrong
        rule = f"must be an index from 0 to {count - 1}, since {field} counts {count}"
        raise ConfigError(field, value, rule, works=works)
    if len(set(indices)) < len(indices):
        raise ConfigError(field, indices, "must name each index once", works=works)


@dataclass(frozen=True)
class Job:
    """One export: a trace, a selection that fits it, and how to show it.

    Attributes:
        tensors: name -> step, in the order selected; `maps` has those over (query, key).
        heads, items: indices, all of them written out.
        tokens: one a position, as given; `labels` has them as they are shown.
    """

    trace: Trace
    selection: Selection
    tensors: dict[str, str]
    heads: tuple[int, ...]
    items: tuple[int, ...]
    tokens: tuple[str, ...] | None
    mode: Mode
    scale: str
    progress: Progress | None

    @property
    def config(self) -> MHAConfig:
        return self.trace.config

    @property
    def labels(self) -> list[str] | None:
        return None if self.tokens is None else labels(self.tokens)

    @property
    def maps(self) -> dict[str, str]:
        """Name -> step of the selected (query, key) maps."""
        return {name: step for name, step in self.tensors.items() if name in MAPS}

    def tensor(self, step: str) -> Tensor:
        """The selected part of a step's tensor, exact, contiguous, on the CPU.

        Shares the trace's memory where the selection is everything.
        """
        tensor = self.trace.tensor(step).detach()
        if self.items != tuple(range(tensor.shape[0])):
            tensor = tensor[torch.tensor(self.items, device=tensor.device)]
        by_head = tensor.dim() == 4
        if by_head and self.heads != tuple(range(tensor.shape[1])):
            tensor = tensor[:, torch.tensor(self.heads, device=tensor.device)]
        return tensor.cpu().contiguous()

    def report(self, done: float, what: str) -> None:
        if self.progress is not None:
            self.progress(min(1.0, done), what)


def check_look(mode: str, scale: str) -> None:
    """Refuses a mode or scale that is not offered.

    Raises:
        ConfigError: naming those that are.
    """
    if mode not in MODES:
        raise ConfigError("mode", mode, "is not offered", works=f"These work: {', '.join(MODES)}")
    if scale not in SCALES:
        raise ConfigError(
            "scale", scale, "is not offered", works=f"These work: {', '.join(SCALES)}"
        )


def share(progress: Progress | None, place: int, count: int) -> Progress:
    """Progress of one part of `count` as progress of the whole."""

    def report(done: float, what: str) -> None:
        if progress is not None:
            progress((place + done) / count, what)

    return report


def make_job(
    trace: Trace,
    selection: Selection,
    *,
    tokens: Sequence[str] | None = None,
    mode: str = "light",
    scale: str = "weight",
    progress: Progress | None = None,
) -> Job:
    """Checks everything that can be checked before a byte is written.

    Raises:
        ConfigError: a tensor, index, mode, scale or number of tokens that does not fit.
    """
    config = trace.config
    selection.check(config, {step.id for step in trace.steps})
    check_look(mode, scale)
    if tokens is not None and len(tokens) != config.time:
        raise ConfigError(
            "tokens", f"{len(tokens)} tokens", f"must be as many as time={config.time}"
        )
    return Job(
        trace=trace,
        selection=selection,
        tensors=dict(zip(selection.names, selection.steps, strict=True)),
        heads=tuple(range(config.heads)) if selection.heads is None else selection.heads,
        items=tuple(range(config.batch)) if selection.items is None else selection.items,
        tokens=None if tokens is None else tuple(tokens),
        mode="dark" if mode == "dark" else "light",
        scale=scale,
        progress=progress,
    )
