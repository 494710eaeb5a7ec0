"""Ranks documents with a search engine: recall.py ENGINE [FILE]

Each line of FILE is a JSON object with the texts of documents and of queries. For each
line, the output is a line with a JSON list: for each query, the numbers of the best 100
documents. The first line of the output is the version. With only ENGINE, the exit code
is 3 if the module is missing. Each engine has its usual settings for English texts.
"""

import importlib.metadata
import json
import re
import sys

TOP = 100


def words(query):
    return re.findall(r"\w+", query)


def sqlite():
    import sqlite3

    def build(docs):
        db = sqlite3.connect(":memory:")
        db.execute("CREATE VIRTUAL TABLE docs USING fts5(text, tokenize='porter unicode61')")
        db.executemany("INSERT INTO docs(rowid, text) VALUES (?, ?)", enumerate(docs))
        return db

    def search(db, query):
        match = " OR ".join('"' + w + '"' for w in words(query))
        if not match:
            return []
        return [r[0] for r in db.execute("SELECT rowid FROM docs WHERE docs MATCH ? ORDER BY bm25(docs) LIMIT ?", (match, TOP))]

    return sqlite3.sqlite_version, build, search


def tantivy():
    from tantivy import Document, Index, SchemaBuilder

    def build(docs):
        schema = SchemaBuilder().add_text_field("text", tokenizer_name="en_stem").add_unsigned_field("id", stored=True).build()
        index = Index(schema)
        writer = index.writer(heap_size=200_000_000, num_threads=1)
        for i, d in enumerate(docs):
            writer.add_document(Document(text=d, id=i))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        return index, index.searcher()

    def search(built, query):
        index, searcher = built
        query = " ".join('"' + w + '"' for w in words(query))
        if not query:
            return []
        parsed, _ = index.parse_query_lenient(query, ["text"])  # the analyzer may drop every word
        hits = searcher.search(parsed, TOP).hits
        return [searcher.doc(address)["id"][0] for _, address in hits]

    return importlib.metadata.version("tantivy"), build, search


def bm25s(stopwords="en"):
    import bm25s as b
    import Stemmer
    stemmer = Stemmer.Stemmer("english")

    def build(docs):
        index = b.BM25()
        index.index(b.tokenize(docs, stopwords=stopwords, stemmer=stemmer, show_progress=False), show_progress=False)
        return index, len(docs)

    def search(built, query):
        index, n = built
        tokens = b.tokenize([query], stopwords=stopwords, stemmer=stemmer, show_progress=False)
        ids, scores = index.retrieve(tokens, k=min(TOP, n), show_progress=False)
        return [int(i) for i, s in zip(ids[0], scores[0]) if s > 0]

    return b.__version__, build, search


def main(engine, path=None):
    try:
        version, build, search = {"sqlite": sqlite, "tantivy": tantivy, "bm25s": bm25s, "bm25s-plus": lambda: bm25s("en_plus")}[engine]()
    except ImportError:
        sys.exit(3)
    if path is None:
        return
    print(json.dumps(version))
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            part = json.loads(line)
            index = build(part["docs"])
            print(json.dumps([search(index, q) for q in part["queries"]]))


main(*sys.argv[1:])
