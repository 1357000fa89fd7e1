"""Small models of transformers with random weights: the real classes, at sizes that run at once.

Sizes differ pairwise: 2 items of 7 tokens, 3 heads, d_model 24, so that d_k is 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.models.albert import AlbertConfig, AlbertModel
from transformers.models.bert import BertConfig, BertModel
from transformers.models.bloom import BloomConfig, BloomModel
from transformers.models.clip import CLIPTextConfig, CLIPTextModel
from transformers.models.deberta_v2 import DebertaV2Config, DebertaV2Model
from transformers.models.dinov2 import Dinov2Config, Dinov2Model
from transformers.models.distilbert import DistilBertConfig, DistilBertModel
from transformers.models.gpt2 import GPT2Config, GPT2Model
from transformers.models.gpt_neox import GPTNeoXConfig, GPTNeoXModel
from transformers.models.llama import LlamaConfig, LlamaModel
from transformers.models.longformer import LongformerConfig, LongformerModel
from transformers.models.mistral import MistralConfig, MistralModel
from transformers.models.mpnet import MPNetConfig, MPNetModel
from transformers.models.opt import OPTConfig, OPTModel
from transformers.models.roberta import RobertaConfig, RobertaModel
from transformers.models.t5 import T5Config, T5EncoderModel
from transformers.models.vit import ViTConfig, ViTModel
from transformers.models.whisper import WhisperConfig, WhisperModel

BATCH, TIME, HEADS, D_MODEL, LAYERS = 2, 7, 3, 24, 2

_SIZES: dict[str, Any] = {
    "hidden_size": D_MODEL,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 8,
    "vocab_size": 60,
}
_IMAGE: dict[str, Any] = {"image_size": 8, "patch_size": 4}
_GPT2: dict[str, Any] = {"n_embd": D_MODEL, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": 60}


def _whisper() -> nn.Module:
    config = WhisperConfig(
        d_model=D_MODEL, encoder_layers=LAYERS, decoder_layers=1, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=8, decoder_ffn_dim=8, vocab_size=60,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        max_source_positions=10,
    )  # fmt: skip
    return WhisperModel(config).encoder


PLAIN: dict[str, Callable[[], nn.Module]] = {
    "BERT": lambda: BertModel(BertConfig(**_SIZES)),
    "RoBERTa": lambda: RobertaModel(RobertaConfig(**_SIZES)),
    "ALBERT": lambda: AlbertModel(AlbertConfig(embedding_size=D_MODEL, **_SIZES)),
    "CLIP text": lambda: CLIPTextModel(CLIPTextConfig(eos_token_id=2, **_SIZES)),
    "DistilBERT": lambda: DistilBertModel(
        DistilBertConfig(dim=D_MODEL, n_layers=LAYERS, n_heads=HEADS, hidden_dim=8, vocab_size=60)
    ),
    "GPT-2": lambda: GPT2Model(GPT2Config(**_GPT2)),
    "GPT-2, scaled by layer": lambda: GPT2Model(
        GPT2Config(scale_attn_by_inverse_layer_idx=True, **_GPT2)
    ),
    "OPT": lambda: OPTModel(
        OPTConfig(
            hidden_size=D_MODEL,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            ffn_dim=8,
            vocab_size=60,
            word_embed_proj_dim=D_MODEL,
        )
    ),
    "ViT": lambda: ViTModel(ViTConfig(**_IMAGE, **_SIZES)),
    "DINOv2": lambda: Dinov2Model(Dinov2Config(**_IMAGE, **_SIZES)),
    "Whisper encoder": _whisper,
}

# What differs, in words that the page shows.
OTHER: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...]]] = {
    "Llama": (
        lambda: LlamaModel(LlamaConfig(num_key_value_heads=1, **_SIZES)),
        ("grouped queries: 3 query heads share 1", "rotary positions"),
    ),
    "GPT-NeoX": (lambda: GPTNeoXModel(GPTNeoXConfig(**_SIZES)), ("rotary positions",)),
    "Mistral": (
        lambda: MistralModel(MistralConfig(num_key_value_heads=3, sliding_window=4, **_SIZES)),
        ("rotary positions", "sliding window: keys 4"),
    ),
    "BLOOM": (
        lambda: BloomModel(
            BloomConfig(hidden_size=D_MODEL, n_layer=LAYERS, n_head=HEADS, vocab_size=60)
        ),
        ("ALiBi",),
    ),
    "T5": (
        lambda: T5EncoderModel(
            T5Config(
                d_model=D_MODEL, num_layers=LAYERS, num_heads=HEADS, d_kv=8, d_ff=8, vocab_size=60
            )
        ),
        ("relative positions",),
    ),
    "MPNet": (lambda: MPNetModel(MPNetConfig(**_SIZES)), ("relative positions",)),
    "DeBERTa": (
        lambda: DebertaV2Model(
            DebertaV2Config(relative_attention=True, pos_att_type=["p2c", "c2p"], **_SIZES)
        ),
        ("relative positions",),
    ),
}


def longformer() -> nn.Module:
    return LongformerModel(LongformerConfig(attention_window=4, **_SIZES))


def made(make: Callable[[], nn.Module], dtype: torch.dtype = torch.float32) -> nn.Module:
    """A model with weights far enough from even that its maps are not."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = make()
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.3)
            elif name.endswith("bias"):
                nn.init.normal_(weight, std=0.1)
    return model.to(dtype).eval()


def inputs(name: str, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Token ids with the second item padded, or an image, or sound."""
    rng = torch.Generator().manual_seed(3)
    if name in ("ViT", "DINOv2"):
        return {"pixel_values": torch.randn(BATCH, 3, 8, 8, generator=rng).to(dtype)}
    if name == "Whisper encoder":
        return {"input_features": torch.randn(BATCH, 80, 20, generator=rng).to(dtype)}
    ids = torch.randint(3, 60, (BATCH, TIME), generator=rng)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}
