#!/usr/bin/env python3
"""Sentence embeddings by a real model, all-MiniLM-L6-v2: attention by vfa, the rest in numpy.

One ragged batch, no padding; each backend in bf16 and in f32, held against golden embeddings of the
reference implementation (see make_golden.py). tools/demo runs this with all it needs.
"""

import argparse
import math
import os
import statistics
import sys
import textwrap
import time

# numpy attends as fast with one thread as with two (its products here are small), and on a busy machine
# far faster: threads of OpenBLAS wait for each other. It reads this when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import numpy as np

    import minilm
    import numpy_attention
    import vfa_ctypes as vfa
    from texts import GOLDEN, read_texts
except ModuleNotFoundError as error:
    sys.exit(
        f"embed: the Python package {error.name} is missing: run tools/demo, "
        "or pip install --no-deps -r examples/embed/requirements.txt"
    )

BACKENDS = ["Cpu", "MemoryEfficient", "Math", "FlashAttention"]
DTYPES = {"bf16": vfa.BF16, "f32": vfa.F32}
COSINE_LIMITS = {"bf16": 0.999, "f32": 0.9999}
WIDTH = 100


def main():
    args = parse_arguments()
    lib = vfa.load()
    context = vfa.Context(lib, args.threads)
    backends = {
        name: vfa.backend_from_name(lib, name) for name in ([args.backend] if args.backend else BACKENDS)
    }

    sentences, queries = read_texts()
    model = minilm.MiniLM()
    batch = model.tokenize(sentences + queries)
    golden = read_golden(batch)
    print_batch(lib, context, batch)

    # A first forward with numpy's attention keeps each layer's real q, k, v: all are timed on these.
    layers_qkv = []

    def numpy_keeping_qkv(qkv):
        layers_qkv.append(qkv)
        return numpy_attention.text_by_text(qkv, batch.cu_seqlens)

    numpy_cosine = worst_cosine(model.embed(batch, numpy_keeping_qkv), golden)

    print("attention, six layers     kernel                  min ms  median ms   cosine to reference")
    failures, remarks, embeddings = [], [], {}
    for name, backend in backends.items():
        info = vfa.backend_query(lib, backend)
        if not info.available:
            remarks.append(f"{name}: {info.reason.decode()}")
            continue
        for dtype in DTYPES:
            try:
                attention = VfaAttention(context, backend, dtype, batch)
            except vfa.VfaError as error:
                if error.status != vfa.UNSUPPORTED:
                    raise
                remarks.append(f"{name}, {dtype}: {error}")
                continue
            embeddings[name, dtype] = model.embed(batch, attention)
            cosine = worst_cosine(embeddings[name, dtype], golden)
            if not cosine >= COSINE_LIMITS[dtype]:
                failures.append(f"{name}, {dtype}: cosine {cosine:.7f} is under {COSINE_LIMITS[dtype]}")
            times = None if args.check else attention.time_layers(layers_qkv)
            print_row(name, dtype, attention.plan.info().kernel.decode(), times, cosine)
    if not args.check:
        print_numpy_rows(batch, layers_qkv, numpy_cosine)
    for remark in remarks:
        print(textwrap.fill(remark, WIDTH, subsequent_indent="  "))

    if not embeddings:
        failures.append("no backend could be used, so nothing was embedded")
    elif not args.check:
        print_nearest(sentences, queries, *next(iter(embeddings.items())))
    if failures:
        sys.exit("\n".join(f"embed: {failure}" for failure in failures))
    print("\nok: every text's cosine to the reference is at least 0.999 in bf16 and 0.9999 in f32")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="embed", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="as a test: cosines only, nothing is timed")
    parser.add_argument("--backend", metavar="NAME", help="only this one: Auto, Cpu, Math, ...")
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="of vfa; 0 = all (numpy: OPENBLAS_NUM_THREADS)"
    )
    args = parser.parse_args()
    if args.threads < 0:
        parser.error(f"--threads {args.threads}: must be 0 or more")
    return args


# ------------------------------------------------------------------------------ attention by vfa --


class VfaAttention:
    """What MiniLM.embed() calls. One plan serves all six layers: the same lengths, the same heads."""

    def __init__(self, context, backend, dtype, batch):
        self.bf16 = dtype == "bf16"
        self.plan = vfa.Plan(context, backend, DTYPES[dtype], minilm.HEADS, minilm.HEAD_DIM, batch.cu_seqlens)

    def __call__(self, qkv):
        qkv = to_bf16(qkv) if self.bf16 else qkv
        o = np.empty((len(qkv), minilm.HEADS, minilm.HEAD_DIM), dtype=qkv.dtype)
        self.plan.forward(qkv, o)
        return from_bf16(o) if self.bf16 else o

    def time_layers(self, layers_qkv):
        """Times of all layers' attention, q, k and v being in the dtype already, as in a bf16 model."""
        if self.bf16:
            layers_qkv = [to_bf16(qkv) for qkv in layers_qkv]
        o = np.empty((len(layers_qkv[0]), minilm.HEADS, minilm.HEAD_DIM), dtype=layers_qkv[0].dtype)
        return time_each(lambda qkv: self.plan.forward(qkv, o), layers_qkv)


def to_bf16(x):
    """float32 -> bits of bf16, to nearest even. (NaN would need care; there is none here.)"""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def time_each(function, layers, most=20, least=3, seconds=2.0):
    """Times in ms of function over all layers, `most` times, or fewer where that takes too long."""
    times = []
    while len(times) < least or (len(times) < most and sum(times) < seconds * 1e3):
        start = time.perf_counter()
        for layer in layers:
            function(layer)
        times.append((time.perf_counter() - start) * 1e3)
    return times


# ---------------------------------------------------------------------------- golden embeddings --


def read_golden(batch):
    golden = np.load(GOLDEN)
    if not np.array_equal(golden["lengths"], batch.lengths):
        sys.exit("embed: golden.npz was made from other texts: run examples/embed/make_golden.py")
    return golden["embeddings"]


def worst_cosine(embeddings, golden):
    """The smallest cosine between a text's embedding and its golden one, in double precision."""
    a, b = embeddings.astype(np.float64), golden.astype(np.float64)
    cosines = (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return cosines.min()


# -------------------------------------------------------------------------------------- printing --


def print_batch(lib, context, batch):
    version = lib.vfa_version_string().decode()
    device = vfa.backend_query(lib, vfa.backend_from_name(lib, "Cpu")).device.decode()
    threads = context.info().num_threads
    print(f"vfa {version} on {device}, {threads} thread{'' if threads == 1 else 's'}")

    lengths = batch.lengths
    total, padded = lengths.sum(), lengths.max() * len(lengths)
    print(f"all-MiniLM-L6-v2: {len(lengths)} texts, {total} tokens in one ragged batch, of lengths")
    print(textwrap.fill(" ".join(map(str, lengths)), WIDTH, initial_indent="  ", subsequent_indent="  "))
    print(
        f"padding would add {padded - total} tokens ({len(lengths)} x {lengths.max()} = {padded}, "
        f"{padded / total:.1f} times as many); vfa adds none\n"
    )


def print_row(name, dtype, kernel, times, cosine):
    fastest, median = (f"{t:.2f}" for t in (min(times), statistics.median(times))) if times else ("-", "-")
    # Cut, not rounded, to seven places: what is printed is reached.
    cosine = f">= {math.floor(cosine * 1e7) / 1e7:.7f}" if cosine else "-"
    print(f"{name:20}{dtype:6}{kernel:21}{fastest:>9}{median:>11}   {cosine}")


def print_numpy_rows(batch, layers_qkv, cosine):
    kernel = f"OpenBLAS, threads: {os.environ['OPENBLAS_NUM_THREADS']}"
    times = time_each(lambda qkv: numpy_attention.text_by_text(qkv, batch.cu_seqlens), layers_qkv)
    print_row("numpy, text by text", "f32", kernel, times, cosine)
    padded = [numpy_attention.pad(qkv, batch.lengths) for qkv in layers_qkv]
    times = time_each(lambda qkv: numpy_attention.padded(*qkv), padded)
    print_row("numpy, padded", "f32", kernel, times, None)


def print_nearest(sentences, queries, key, embeddings, count=2):
    print(f"\nnearest sentences, by the embeddings of {', '.join(key)}")
    sentence_embeddings, query_embeddings = np.split(embeddings, [len(sentences)])
    for query, cosines in zip(queries, query_embeddings @ sentence_embeddings.T):
        print(f"  {query}")
        for i in np.argsort(-cosines)[:count]:
            print(f"    {cosines[i]:.2f}  {textwrap.shorten(sentences[i], WIDTH - 10, placeholder=' ...')}")


if __name__ == "__main__":
    try:
        main()
    except vfa.VfaError as error:
        sys.exit(f"embed: {error}")
