"""Runs mem0 for the program of this directory: mem0lines.py [read]

With read, it prints all memories. Otherwise it answers lines of standard input, each a
JSON list of a verb and a text. There is no language model, so mem0 stores each text as it
is (infer=False). The embedding model is all-MiniLM-L6-v2, computed here. The vector store
is the default one, qdrant in a local directory.
"""

import json
import os
import sys

sys.path.insert(0, os.environ["DISTILL"])
import distill
import numpy
from mem0 import Memory
from tokenizers import Tokenizer

USER = {"user_id": "u"}


class MiniLM:
    model = None

    def load(self):
        weights, tokenizer = distill.model_files()
        self.model = distill.Model(weights)
        self.tokenizer = Tokenizer.from_str(tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)

    def embed(self, text, memory_action=None):
        if not self.model:
            self.load()
        v = self.model.run(numpy.array([self.tokenizer.encode(text).ids]))[0].mean(axis=0)
        return (v / numpy.linalg.norm(v)).tolist()

    def embed_batch(self, texts, memory_action=None):
        return [self.embed(text) for text in texts]


def opened():
    home = os.environ["MEM0_DIR"]
    memory = Memory.from_config({
        "vector_store": {"provider": "qdrant", "config": {
            "path": os.path.join(home, "store"), "on_disk": True, "embedding_model_dims": 384, "collection_name": "notes"}},
        "history_db_path": os.path.join(home, "history.db"),
    })
    memory.embedding_model = MiniLM()
    return memory


def texts(answer):
    return "\n".join(m["memory"] for m in answer["results"])


def everything(memory):
    return texts(memory.get_all(filters=USER, top_k=10000))


def answer(memory, verb, text):
    if verb == "open":
        return ""
    if verb == "add":
        return json.dumps(memory.add(text, infer=False, **USER))
    if verb == "search":
        return texts(memory.search(text, filters=USER, top_k=5))
    if verb == "change":  # adds the text, changes it, removes it, and returns its history
        made = memory.add(text, infer=False, **USER)["results"][0]["id"]
        memory.update(made, "the new text")
        memory.delete(made)
        return json.dumps(memory.history(made), default=str)
    raise ValueError(verb)


def main():
    if sys.argv[1:] == ["read"]:
        print(everything(opened()))
        return
    memory = None
    for line in sys.stdin:
        verb, text = json.loads(line)
        try:
            memory = memory or opened()
            result = {"ok": answer(memory, verb, text)}
        except Exception as e:
            result = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(result), flush=True)


main()
