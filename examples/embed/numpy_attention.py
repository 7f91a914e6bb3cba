"""The same attention without vfa, for comparison: as good as plain numpy gets, in float32."""

import numpy as np

from minilm import HEAD_DIM

SCALE = np.float32(HEAD_DIM**-0.5)


def softmax_attention(q, k, v, key_mask=None):
    """q, k, v [..., heads, length, head_dim]; key_mask [..., 1, 1, length] is 0 or -infinity."""
    s = (q * SCALE) @ k.swapaxes(-1, -2)
    if key_mask is not None:
        s += key_mask
    s -= s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    return (s @ v) / s.sum(axis=-1, keepdims=True)


def text_by_text(qkv, cu_seqlens):
    """qkv [total, 3, heads, head_dim] -> [total, heads, head_dim], nothing padded."""
    o = np.empty_like(qkv[:, 0])
    for start, end in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        q, k, v = qkv[start:end].transpose(1, 2, 0, 3)  # [heads, length, head_dim] each
        o[start:end] = softmax_attention(q, k, v).swapaxes(0, 1)
    return o


def pad(qkv, lengths):
    """qkv [total, 3, heads, head_dim] -> q, k, v [batch, heads, longest, head_dim] and their key_mask."""
    inside = np.arange(lengths.max()) < lengths[:, None]  # [batch, longest]
    padded = np.zeros(inside.shape + qkv.shape[1:], dtype=qkv.dtype)
    padded[inside] = qkv
    key_mask = np.where(inside, np.float32(0), np.float32(-np.inf))[:, None, None, :]
    q, k, v = np.ascontiguousarray(padded.transpose(2, 0, 3, 1, 4))
    return q, k, v, key_mask


def padded(q, k, v, key_mask, at_once=4):
    """What pad() gave, a few texts at a time: all at once leaves the processor's cache and is slower."""
    o = np.empty_like(q)
    for start in range(0, len(q), at_once):
        part = slice(start, start + at_once)
        o[part] = softmax_attention(q[part], k[part], v[part], key_mask[part])
    return o
