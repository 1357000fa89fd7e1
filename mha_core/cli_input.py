"""What the command line runs on: random weights, or a layer of a real model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mha_core import budget
from mha_core.config import MHAConfig
from mha_core.devices import DEVICES, DTYPES
from mha_core.errors import ConfigError
from mha_core.inputs import text_input, tokenize
from mha_core.models import retrace
from mha_core.models.encoded import Encoded
from mha_core.models.hub import TextModel, load
from mha_core.models.images import ImageModel
from mha_core.models.layer import configuration
from mha_core.trace import Trace, trace_forward

_NUMBERS = ("batch", "time", "d_model", "heads", "seed", "dropout", "dtype", "device")


@dataclass(frozen=True)
class Input:
    """A run to be made.

    Attributes:
        config: what will run.
        tokens: of each batch item; None for a random input.
        run: makes the trace, keeping the tensors of some steps, with or without a profile.
    """

    config: MHAConfig
    tokens: tuple[tuple[str, ...], ...] | None
    run: Callable[[Sequence[str], bool], Trace]

    def labels(self, items: Sequence[int] | None) -> tuple[str, ...] | None:
        """The tokens of the items, where they have the same."""
        if self.tokens is None:
            return None
        rows = {self.tokens[n] for n in (range(len(self.tokens)) if items is None else items)}
        return rows.pop() if len(rows) == 1 else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say what runs."""
    default = MHAConfig()
    for name in ("batch", "time", "d_model", "heads", "seed"):
        # No default here: --text sets the time, and only a time that was typed can disagree.
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=_integer, metavar="N",
            help=f"default: {getattr(default, name)}",
        )  # fmt: skip
    parser.add_argument("--causal", action="store_true", help="hide later positions")
    parser.add_argument("--dropout", type=_number, metavar="P", help="default: 0")
    parser.add_argument("--no-bias", action="store_true", help="projections without bias")
    parser.add_argument("--dtype", help=f"{', '.join(DTYPES)} (default: {default.dtype})")
    parser.add_argument("--device", help=f"{', '.join(DEVICES)} (default: {default.device})")
    parser.add_argument("--text", help="words to attend over; their number is the time")
    parser.add_argument(
        "--model", help="a layer of a real model on --text: minilm, a folder, or with --download "
        "a hub id",
    )  # fmt: skip
    parser.add_argument("--layer", type=_integer, metavar="N", help="of the model (default: 0)")
    parser.add_argument("--image", type=Path, metavar="FILE", help="a picture, for a vision model")
    parser.add_argument("--pair", help="a second sentence beside --text, for the model")
    parser.add_argument("--download", action="store_true", help="let a hub id be fetched")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, not {text!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None


def requested(options: argparse.Namespace) -> Input:
    """The run that the options ask for.

    Raises:
        ConfigError: options that do not fit together, or a value out of range.
    """
    return _random(options) if options.model is None else _real(options)


def _random(options: argparse.Namespace) -> Input:
    for name in ("layer", "pair", "image"):
        if getattr(options, name) is not None:
            raise ConfigError(name, str(getattr(options, name)), "needs --model")
    tokens = None
    if options.text is not None:
        tokens = tokenize(_utf8("text", options.text))
        if options.time not in (None, len(tokens)):
            raise ConfigError(
                "time",
                options.time,
                f"must be the number of words in text={options.text!r}, {len(tokens)}",
                works="Leave out --time or --text",
            )
        options.time = len(tokens)
    given = {name: getattr(options, name) for name in _NUMBERS}
    fields = {name: value for name, value in given.items() if value is not None}
    config = MHAConfig(**fields, causal=options.causal, bias=not options.no_bias)

    def run(keep: Sequence[str], profile: bool) -> Trace:
        x = None if tokens is None else text_input(config, tokens)
        return trace_forward(config, x=x, keep=keep, profile=profile)

    # The same words in every item of the batch.
    return Input(config, None if tokens is None else (tuple(tokens),) * config.batch, run)


def _real(options: argparse.Namespace) -> Input:
    for name in (*_NUMBERS, "causal", "no_bias"):
        value = getattr(options, name)
        if value not in (None, False):
            raise ConfigError(
                name, value, "is set by the model", works=f"Leave out --{name.replace('_', '-')}"
            )
    model = load(options.model, download=options.download)
    if isinstance(model, ImageModel):
        encoded = model.encode(_picture(options))
    else:
        encoded = _sentences(options, model)
    batch, time = len(encoded.tokens), len(encoded.tokens[0])
    width = -(-model.d_model // model.heads) * model.heads
    budget.check(MHAConfig(batch=batch, time=time, d_model=width, heads=model.heads))
    captured = model.capture(encoded, 0 if options.layer is None else options.layer)

    def run(_keep: Sequence[str], profile: bool) -> Trace:
        return retrace(captured, profile=profile).trace

    return Input(configuration(captured), encoded.tokens, run)


def _sentences(options: argparse.Namespace, model: TextModel) -> Encoded:
    if options.image is not None:
        raise ConfigError("image", str(options.image), f"is nothing that {model.name} reads")
    if options.text is None:
        raise ConfigError("text", "", f"must be given: {model.name} reads sentences")
    texts = [line for line in _utf8("text", options.text).splitlines() if line.strip()]
    pair = None if options.pair is None else _utf8("pair", options.pair)
    return model.encode(texts, pair)


def _picture(options: argparse.Namespace) -> bytes:
    for name in ("text", "pair"):
        if getattr(options, name) is not None:
            raise ConfigError(name, getattr(options, name), "is nothing that a vision model reads")
    if options.image is None:
        raise ConfigError("image", "", "must be given: a vision model reads a picture")
    image: Path = options.image
    return image.read_bytes()


def _utf8(field: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(field, text, "must be UTF-8") from None
    return text
