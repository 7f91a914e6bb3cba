"""The example's texts, one a line, and where their golden embeddings lie."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE / "golden.npz"


def read_texts():
    """(sentences, queries)"""
    return read_lines("sentences.txt"), read_lines("queries.txt")


def read_lines(name):
    return (HERE / name).read_text(encoding="utf-8").splitlines()
