"""Measures a search engine: engines.py ENGINE [DOCS QUERIES PASSES DIR]

DOCS and QUERIES contain one text per line. Spaces separate the words. DIR is not
used. The output is a JSON object. It contains the version, build (CPU ns of the
process), best (for each query, the least CPU ns of the passes, with the binding),
and hits (for each query, the line numbers of the best 10). With only ENGINE, the
exit code is 3 if the module is missing. Engines work in memory, with one segment
and, if possible, without positions.
"""

import json
import sys
import time


def sqlite():
    import apsw
    def build(docs):
        db = apsw.Connection(":memory:")
        db.execute("CREATE VIRTUAL TABLE docs USING fts5(text, content='', tokenize='ascii')")
        with db:
            db.executemany("INSERT INTO docs(rowid, text) VALUES (?, ?)", enumerate(docs))
            db.execute("INSERT INTO docs(docs) VALUES ('optimize')")
        return db

    def search(db, query):
        match = " OR ".join('"' + t + '"' for t in query.split())
        return [r[0] for r in db.execute("SELECT rowid FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT 10", (match,))]

    return apsw.sqlite_lib_version(), build, search


def xapian():
    import xapian
    def build(docs):
        db = xapian.WritableDatabase("", xapian.DB_BACKEND_INMEMORY)
        words = xapian.TermGenerator()
        for d in docs:
            doc = xapian.Document()
            words.set_document(doc)
            words.index_text_without_positions(d)
            db.add_document(doc)
        return db

    def search(db, query):
        e = xapian.Enquire(db)
        e.set_weighting_scheme(xapian.BM25Weight(1.2, 0, 1, 0.75, 0))
        e.set_query(xapian.Query(xapian.Query.OP_OR, query.split()))
        return [m.docid - 1 for m in e.get_mset(0, 10)]

    return xapian.version_string(), build, search


def main(engine, *args):
    try:
        version, build, search = {"sqlite": sqlite, "xapian": xapian}[engine]()
    except ImportError:
        sys.exit(3)
    if not args:
        return
    docs, queries = (open(f).read().splitlines() for f in args[:2])
    start = time.process_time_ns()
    index = build(docs)
    built = time.process_time_ns() - start
    best, hits = [1 << 62] * len(queries), [[]] * len(queries)
    for _ in range(int(args[2])):
        for i, q in enumerate(queries):
            start = time.thread_time_ns()
            hits[i] = search(index, q)
            best[i] = min(best[i], time.thread_time_ns() - start)
    json.dump({"version": version, "build": built, "best": best, "hits": hits}, sys.stdout)


main(*sys.argv[1:])
