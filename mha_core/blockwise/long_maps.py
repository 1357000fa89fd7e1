"""What maps of any length follow from: q, k, the scale and what is masked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from mha_core.errors import ConfigError

# The steps whose maps follow from q and k alone, in order.
Step = Literal["scores", "scale", "mask", "softmax"]
STEPS: tuple[Step, ...] = ("scores", "scale", "mask", "softmax")

# What a masked score is replaced by: exp of it is 0, and unlike -inf it stays a number when it is
# subtracted from itself or multiplied by 0.
HIDDEN = -1e30


@dataclass(frozen=True)
class LongMaps:
    """The maps of one batch item, of which no one is held whole.

    Attributes:
        q, k: (h, time, d_k), float32 or float64.
        scale: factor on the scores; None divides by sqrt(d_k) (Vaswani et al. 2017).
        causal: query i sees keys 0..i.
        keep: boolean, True = may attend: (time,), the same keys for all queries (padding), or
            (time, time); None where all may.

    Raises:
        ConfigError: shapes or dtypes that do not fit together.
    """

    q: Tensor
    k: Tensor
    scale: float | None = None
    causal: bool = False
    keep: Tensor | None = None

    def __post_init__(self) -> None:
        if self.q.dim() != 3 or self.q.shape != self.k.shape:
            raise ConfigError(
                "k", tuple(self.k.shape), f"must be (h, time, d_k) as q={tuple(self.q.shape)}"
            )
        if self.q.dtype not in (torch.float32, torch.float64) or self.q.dtype != self.k.dtype:
            raise ConfigError("q", str(self.q.dtype), "must be float32 or float64, like k")
        keep = self.keep
        if keep is not None and (
            keep.dtype is not torch.bool
            or tuple(keep.shape) not in ((self.time,), (self.time,) * 2)
        ):
            raise ConfigError(
                "keep", tuple(keep.shape),
                f"must be boolean ({self.time},) or ({self.time}, {self.time})",
            )  # fmt: skip

    @property
    def heads(self) -> int:
        return self.q.shape[0]

    @property
    def time(self) -> int:
        return self.q.shape[1]

    @property
    def d_k(self) -> int:
        return self.q.shape[2]

    def factor(self, step: Step) -> float:
        """On the product of q and k."""
        if step == "scores":
            return 1.0
        return 1.0 / math.sqrt(self.d_k) if self.scale is None else self.scale

    def masks(self, step: Step) -> bool:
        """Whether some cells are absent at this step."""
        return step in ("mask", "softmax") and (self.causal or self.keep is not None)

    def reach(self, stop: int, step: Step) -> int:
        """Keys that the queries before `stop` can see at most: later ones need no computing."""
        return stop if self.causal and self.masks(step) else self.time

    def hidden(self, queries: tuple[int, int], keys: tuple[int, int]) -> Tensor | None:
        """(queries, keys) of a tile, broadcastable, True where masked; None where nothing is."""
        (a, b), (c, d) = queries, keys
        found: Tensor | None = None
        if self.causal and d - 1 > a:
            device = self.q.device
            rows = torch.arange(a, b, device=device)[:, None]
            found = torch.arange(c, d, device=device) > rows
        if self.keep is not None:
            part = self.keep[None, c:d] if self.keep.dim() == 1 else self.keep[a:b, c:d]
            if not part.all():
                found = ~part if found is None else found | ~part
        return found

    def sees(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Boolean, one pair of positions each: whether the query may attend to the key."""
        found = keys <= queries if self.causal else torch.ones_like(keys, dtype=torch.bool)
        if self.keep is None:
            return found
        return found & (self.keep[keys] if self.keep.dim() == 1 else self.keep[queries, keys])

    @cached_property
    def visible_keys(self) -> Tensor:
        """(time,): how many keys each query sees; integers as floats."""
        if self.keep is not None and self.keep.dim() == 2:
            counts = (self.keep.tril() if self.causal else self.keep).sum(-1)
        elif self.causal:
            counts = self._before[1:]
        else:
            counts = self._before[-1].expand(self.time)
        return counts.to(self.q.dtype)

    @cached_property
    def _before(self) -> Tensor:
        """(time + 1,): keys that are kept before each position."""
        kept = torch.ones(self.time, dtype=torch.int64, device=self.q.device)
        if self.keep is not None and self.keep.dim() == 1:
            kept = self.keep.long()
        return torch.cat([kept.new_zeros(1), kept.cumsum(0)])

    def counts(self, queries: tuple[int, int], edges: Tensor) -> Tensor:
        """(queries, columns): visible cells of each query among the keys between two edges.

        Args:
            queries: start and stop.
            edges: (columns + 1,), positions.
        """
        a, b = queries
        edges = edges.to(self.q.device)
        if self.keep is not None and self.keep.dim() == 2:
            rows = self.keep[a:b, : int(edges[-1])]
            if self.causal:
                rows = rows.tril(a)
            before = torch.nn.functional.pad(rows.cumsum(-1), (1, 0))
            return (before[:, edges[1:]] - before[:, edges[:-1]]).to(self.q.dtype)
        ends = edges.expand(b - a, -1)
        if self.causal:
            last = torch.arange(a + 1, b + 1, device=self.q.device)[:, None]
            ends = torch.minimum(ends, last)
        found = self._before[ends]
        return (found[:, 1:] - found[:, :-1]).to(self.q.dtype)

    def head_bound(self, head: int, step: Step) -> float:
        """No score of the head is larger (Cauchy-Schwarz)."""
        longest = self.q[head].norm(dim=-1).amax() * self.k[head].norm(dim=-1).amax()
        return float(longest) * abs(self.factor(step))

    def check_step(self, step: str) -> None:
        """Refuses a step whose maps do not follow from q and k.

        Raises:
            ConfigError: naming those that do.
        """
        if step not in STEPS:
            raise ConfigError("step", step, "is not had block by block", works=", ".join(STEPS))
