package recalleval_test

import (
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/recalleval"

	"github.com/google/go-cmp/cmp"
)

// files are the files of a machine, by name.
func files(m map[string]string) recalleval.Open {
	return func(name string) (io.ReadCloser, error) {
		text, ok := m[filepath.ToSlash(name)]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
}

const (
	goodCorpus  = `{"_id":"a","title":"One","text":"first"}` + "\n" + `{"_id":"b","text":"second"}` + "\n"
	goodQueries = `{"_id":"1","text":"x"}` + "\n" + `{"_id":"2","text":"y"}` + "\n"
	goodQrels   = "1\ta\t1\n2\tb\t2\n"
)

// TestQrels reads the spellings of judgments.
func TestQrels(t *testing.T) {
	want := []map[string]int{{"a": 1}, {"a": 0, "b": 2}}
	for name, s := range map[string]string{
		"without a head":       "1\ta\t1\n2\tb\t2\n2\ta\t0\n",
		"with BEIR's head":     "query-id\tcorpus-id\tscore\n1\ta\t1\n2\tb\t2\n2\ta\t0\n",
		"another head":         "qid pid rel\n1 a 1\n2 b 2\n2 a 0\n",
		"trec_eval's":          "1 0 a 1\n2 0 b 2\n2 0 a 0\n",
		"trec_eval's, tabs":    "1\t0\ta\t1\n2\tQ0\tb\t2\n2\t0\ta\t0\n",
		"Windows' line ends":   "query-id\tcorpus-id\tscore\r\n1\ta\t1\r\n2\tb\t2\r\n2\ta\t0\r\n",
		"a byte order mark":    "\ufeff1\ta\t1\n2\tb\t2\n2\ta\t0\n",
		"grades with a point":  "1\ta\t1.0\n2\tb\t2.0\n2\ta\t0.0\n",
		"the same twice":       "1\ta\t1\n1\ta\t1\n2\tb\t2\n2\ta\t0\n",
		"blank lines, no end":  "\n1\ta\t1\n\n2\tb\t2\n2\ta\t0",
		"blanks about columns": "1 \ta\t 1\n2\tb\t2 \n2\t a\t0\n",
	} {
		for _, file := range []string{"d/qrels.tsv", "d/qrels/test.tsv"} {
			set, err := recalleval.Load(files(map[string]string{"d/corpus.jsonl": goodCorpus, "d/queries.jsonl": goodQueries, file: s}), "d")
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var got []map[string]int
			for _, q := range set.Queries {
				got = append(got, q.Grades)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, %s: %s", name, file, d)
			}
		}
	}
	// A name with a blank needs tabs.
	set, err := recalleval.Load(files(map[string]string{"d/corpus.jsonl": goodCorpus, "d/queries.jsonl": `{"_id":"how long","text":"x"}`,
		"d/qrels.tsv": "how long\tno such\t1\nhow long\ta\t1\n"}), "d")
	if err != nil || set.UnknownDocs != 1 || len(set.Queries[0].Grades) != 2 {
		t.Errorf("ids with blanks: %+v, %v", set, err)
	}
}

// TestLoadErrors checks that an error names the file and the line.
func TestLoadErrors(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"corpus.jsonl", goodCorpus + "{", "d/corpus.jsonl: line 3: "},
		{"corpus.jsonl", goodCorpus + "\n[]\n", "d/corpus.jsonl: line 4: "},
		{"corpus.jsonl", `{"text":"x"}`, "d/corpus.jsonl: line 1: no _id"},
		{"corpus.jsonl", `{"_id":{},"text":"x"}`, "d/corpus.jsonl: line 1: "},
		{"corpus.jsonl", goodCorpus + goodCorpus, `d/corpus.jsonl: line 3: duplicate document "a"`},
		{"corpus.jsonl", "\n", "d/corpus.jsonl: no documents"},
		{"queries.jsonl", goodQueries + goodQueries, `d/queries.jsonl: line 3: duplicate query "1"`},
		{"queries.jsonl", goodQueries + `{"_id":"3","text":5}`, "d/queries.jsonl: line 3: "},
		{"queries.jsonl", "", "d: none of 0 queries has a relevant document"},
		{"queries.jsonl", `{"_id":"elsewhere","text":"x"}`, "d: none of 1 queries has a relevant document"},
		{"qrels.tsv", "1\ta\n", "d/qrels.tsv: line 1: 2 columns"},
		{"qrels.tsv", "1\ta\t1\n1\tb\tyes\n", `d/qrels.tsv: line 2: grade "yes" is not an integer`},
		{"qrels.tsv", "1\ta\t0.5\n", `d/qrels.tsv: line 1: grade "0.5" is not an integer`},
		{"qrels.tsv", "1\ta\t1\n1\ta\t2\n", `d/qrels.tsv: line 2: query "1", document "a": grade 2 contradicts the earlier grade 1`},
		{"qrels.tsv", "1\t\t1\n", "d/qrels.tsv: line 1: a column is empty"},
		{"qrels.tsv", "query-id\tcorpus-id\tscore\n", "d/qrels.tsv: no judgments"},
		{"corpus.jsonl", `{"_id":"a","text":"` + strings.Repeat("long ", 11<<20), "d/corpus.jsonl: line 1: more than "},
	} {
		m := map[string]string{"d/corpus.jsonl": goodCorpus, "d/queries.jsonl": goodQueries, "d/qrels.tsv": goodQrels}
		m["d/"+c.file] = c.text
		if _, err := recalleval.Load(files(m), "d"); err == nil || !strings.HasPrefix(filepath.ToSlash(err.Error()), c.want) {
			t.Errorf("%s %.60q: %v, want %s", c.file, c.text, err, c.want)
		}
		delete(m, "d/"+c.file)
		if _, err := recalleval.Load(files(m), "d"); err == nil || !strings.Contains(filepath.ToSlash(err.Error()), "d/"+c.file) {
			t.Errorf("%s is missing: %v", c.file, err)
		}
	}
}

// TestEntries checks the entries of documents: unique names that add no term to
// the title, and ids in the order of the documents.
func TestEntries(t *testing.T) {
	const corpus = `{"_id":"z","title":"Twice","text":"one"}
{"_id":7,"title":"Twice","text":"two","metadata":{"group":3}}
{"_id":"known-item","title":" ","text":"three","metadata":{"group":null}}
{"_id":"a","title":"Alone","text":"four","metadata":{"group":"g","other":[1]}}
`
	s, err := recalleval.Load(files(map[string]string{"d/corpus.jsonl": corpus, "d/queries.jsonl": goodQueries, "d/qrels.tsv": goodQrels}), "d/")
	if err != nil {
		t.Fatal(err)
	}
	type doc struct{ ID, Group, Text string }
	want := []doc{{"7", "3", "two"}, {"a", "g", "four"}, {"known-item", "", "three"}, {"z", "", "one"}}
	var got []doc
	names := make(map[string]bool)
	for i, d := range s.Docs {
		got = append(got, doc{d.ID, d.Group, d.Entry.Content})
		names[d.Entry.Name] = true
		if d.Entry.ID != uint64(i+1) || d.Entry.Name == "" {
			t.Errorf("entry %d: %+v", i, d.Entry)
		}
	}
	if d := cmp.Diff(want, got); d != "" || s.Name != "d" || s.Groups != 2 || s.UnknownDocs != 1 {
		t.Errorf("%s %+v", d, s)
	}
	if len(names) != 4 || !names["Alone"] {
		t.Errorf("names %v", names)
	}
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		for name, terms := range map[string]int{s.Docs[0].Entry.Name: 1, s.Docs[2].Entry.Name: 0, s.Docs[3].Entry.Name: 1} {
			n := 0
			for range a.Tokens(name) {
				n++
			}
			if n != terms {
				t.Errorf("%v: the name %q has %d terms, want %d", a, name, n, terms)
			}
		}
	}
}

// TestFromStore asks questions of a store, as it is.
func TestFromStore(t *testing.T) {
	store := crmem.New(nil)
	defer store.Close()
	for _, op := range []crmem.Op{
		crmem.Add{Name: "deploy", Content: "build, tag, push", Aliases: []string{"ship"}},
		crmem.Add{Name: "tea", Content: "green tea"},
		crmem.Add{Name: "coffee", Content: "black", Kind: crmem.Archive},
	} {
		if err := store.Apply(op); err != nil {
			t.Fatal(err)
		}
	}
	const questions = "how do we ship?\tdeploy\n\nblack or green?\ttea\nblack or green?\tcoffee\nrice\tno such entry\n"
	s, err := recalleval.FromStore("memory.db", store, text(questions), "q.tsv")
	if err != nil {
		t.Fatal(err)
	}
	r, err := recalleval.Run(t.Context(), s, recalleval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []recalleval.Answer
	for _, a := range r.Answers {
		got = append(got, recalleval.Answer{Query: a.Query, Rank: a.Rank, Scores: recalleval.Scores{NDCG10: a.NDCG10}})
	}
	want := []recalleval.Answer{answer("1", 1, 1), answer("3", 1, 1), answer("5", 0, 0)}
	if d := cmp.Diff(want, got); d != "" || r.Docs != 3 || r.UnknownDocs != 1 || r.Set != "memory.db" {
		t.Errorf("%s %+v", d, r)
	}
	for wrong, msg := range map[string]string{
		"no tab\n":      "q.tsv: line 1: want a question, a tab",
		"a\tb\nempty\t": "q.tsv: line 2: want a question, a tab",
		"a\xff\tb\n":    "q.tsv: line 1: invalid UTF-8",
		"":              "q.tsv: no questions",
	} {
		if _, err := recalleval.FromStore("s", store, text(wrong), "q.tsv"); err == nil || !strings.HasPrefix(err.Error(), msg) {
			t.Errorf("%q: %v, want %s", wrong, err, msg)
		}
	}
}
