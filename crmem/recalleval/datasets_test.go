package recalleval_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"crabmem/bm25/analysis"
	"crabmem/crmem/recalleval"
	"crabmem/fuzz/race"
)

// requires reports whether CRABMEM_REQUIRE, a list, contains word. "datasets"
// makes a missing test set an error; "recall" makes figures below
// testdata/required.tsv an error.
func requires(word string) bool {
	return slices.Contains(strings.FieldsFunc(os.Getenv("CRABMEM_REQUIRE"), func(r rune) bool { return r == ',' || r == ' ' }), word)
}

// datasets returns the folders with test sets under CRABMEM_DATASETS.
func datasets(t *testing.T) []string {
	t.Helper()
	root := os.Getenv("CRABMEM_DATASETS")
	if root == "" {
		if requires("datasets") {
			t.Fatal("CRABMEM_DATASETS is not set, and CRABMEM_REQUIRE wants the test sets")
		}
		t.Skip("SKIPPED: CRABMEM_DATASETS names no folder of test sets")
	}
	corpora, err := filepath.Glob(filepath.Join(root, "*", recalleval.Corpus))
	if err != nil {
		t.Fatal(err)
	}
	if len(corpora) == 0 {
		t.Fatalf("CRABMEM_DATASETS=%s: no folder in it has a %s", root, recalleval.Corpus)
	}
	dirs := make([]string, len(corpora))
	for i, c := range corpora {
		dirs[i] = filepath.Dir(c)
	}
	return dirs
}

// required reads the required figures of the default configuration, nDCG@10 by
// set.
func required(t *testing.T) map[string]float64 {
	t.Helper()
	b, err := os.ReadFile("testdata/required.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]float64)
	for line := range strings.Lines(string(b)) {
		set, figure, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if figure == recalleval.Metrics[0] {
			continue
		}
		if want[set], err = strconv.ParseFloat(figure, 64); err != nil {
			t.Fatalf("testdata/required.tsv: %q: %v", line, err)
		}
	}
	if len(want) < 8 {
		t.Fatalf("testdata/required.tsv has %d sets", len(want))
	}
	return want
}

// missed lists the sets whose figures are below the required ones. It compares
// figures as they are printed, with three decimals.
func missed(want map[string]float64, results []*recalleval.Result) []string {
	var list []string
	for _, r := range results {
		least, named := want[r.Set]
		if got := math.Round(r.NDCG10*1000) / 1000; named && got < least {
			list = append(list, fmt.Sprintf("%s: nDCG@10 is %.3f, required %.3f", r.Set, got, least))
		}
	}
	return list
}

func TestMissed(t *testing.T) {
	want := map[string]float64{"a": 0.5, "b": 0.7, "c": 0.9}
	result := func(set string, ndcg float64) *recalleval.Result {
		return &recalleval.Result{Set: set, Scores: recalleval.Scores{NDCG10: ndcg}}
	}
	got := missed(want, []*recalleval.Result{result("a", 0.49951), result("b", 0.69949), result("c", 0.9), result("another", 0.1)})
	if !slices.Equal(got, []string{"b: nDCG@10 is 0.699, required 0.700"}) {
		t.Errorf("%q", got)
	}
}

// shuffled writes a set with the documents in another order and with permuted
// ids.
func shuffled(t *testing.T, s *recalleval.Set, rng *rand.Rand) recalleval.Open {
	t.Helper()
	renamed := make(map[string]string)
	for i, p := range rng.Perm(len(s.Docs)) {
		renamed[s.Docs[i].ID] = s.Docs[p].ID
	}
	var corpus, queries, qrels bytes.Buffer
	line := func(b *bytes.Buffer, id, title, text, group string) {
		err := json.NewEncoder(b).Encode(map[string]any{"_id": id, "title": title, "text": text, "metadata": map[string]any{"group": group}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range rng.Perm(len(s.Docs)) {
		d := &s.Docs[i]
		line(&corpus, renamed[d.ID], d.Entry.Name, d.Entry.Content, d.Group)
	}
	for _, q := range s.Queries {
		line(&queries, q.ID, "", q.Text, q.Group)
		for doc, grade := range q.Grades {
			fmt.Fprintf(&qrels, "%s\t%s\t%d\n", q.ID, cmp.Or(renamed[doc], doc), grade)
		}
	}
	return files(map[string]string{"set/corpus.jsonl": corpus.String(), "set/queries.jsonl": queries.String(), "set/qrels.tsv": qrels.String()})
}

// results are those of run, by set and analyzer.
var results = make(map[string]*recalleval.Result)

// run searches a test set, once for all tests.
func run(t *testing.T, s *recalleval.Set, a analysis.Analyzer) *recalleval.Result {
	t.Helper()
	key := fmt.Sprint(s.Name, a)
	if results[key] == nil {
		r, err := recalleval.Run(t.Context(), s, recalleval.Options{Analyzer: a})
		if err != nil {
			t.Fatalf("%s, %v: %v", s.Name, a, err)
		}
		results[key] = r
	}
	return results[key]
}

// TestShuffled checks that the order of documents and their ids affect only the
// order of equal scores.
func TestShuffled(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short: searches every test set")
	}
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	for _, dir := range datasets(t) {
		set, err := recalleval.Load(open, dir)
		if err != nil {
			t.Fatal(err)
		}
		other, err := recalleval.Load(shuffled(t, set, rng), "set")
		if err != nil {
			t.Fatal(err)
		}
		a := run(t, set, analysis.Standard)
		b, err := recalleval.Run(t.Context(), other, recalleval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		moved := len(recalleval.Compare(a, b).Moved)
		t.Logf("%s: nDCG@10 %.5f, shuffled %.5f; %d of %d queries moved", a.Set, a.NDCG10, b.NDCG10, moved, a.Queries)
		if math.Abs(a.NDCG10-b.NDCG10) > 0.001 {
			t.Errorf("%s: nDCG@10 is %.5f, and %.5f with documents and ids shuffled (seed %d)", a.Set, a.NDCG10, b.NDCG10, seed)
		}
	}
}

// TestDatasets runs the test sets with each analyzer.
func TestDatasets(t *testing.T) {
	race.Skip(t)
	if testing.Short() {
		t.Skip("SKIPPED: -short: searches every test set")
	}
	dirs := datasets(t)
	want := required(t)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nset\tanalyzer\tdocs\tqueries\tnDCG@10\trequired\trecall@10\tMRR@10\thit@1\t\n")
	var standard []*recalleval.Result
	for _, dir := range dirs {
		set, err := recalleval.Load(open, dir)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
			r := run(t, set, a)
			least := "-"
			if n, named := want[r.Set]; named && a == analysis.Standard {
				least = fmt.Sprintf("%.3f", n)
				standard = append(standard, r)
			}
			if r.NDCG10 <= 0 {
				t.Errorf("%s, %v: no hits", r.Set, a)
			}
			fmt.Fprintf(w, "%s\t%v\t%d\t%d\t%.3f\t%s\t%.3f\t%.3f\t%.3f\t\n", r.Set, a, r.Docs, r.Queries, r.NDCG10, least, r.Recall10, r.MRR10, r.Hit1)
		}
	}
	w.Flush()
	t.Log(b.String())
	for _, m := range missed(want, standard) {
		if requires("recall") {
			t.Error(m)
		} else {
			t.Log(m)
		}
	}
}

// TestImportance runs the test sets with weights of importance. Their documents have no
// metadata, so that only links and, with ages, recency differ.
func TestImportance(t *testing.T) {
	if os.Getenv("CRABMEM_IMPORTANCE") == "" {
		t.Skip("SKIPPED: CRABMEM_IMPORTANCE=1 is not set; the test searches every set six times")
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nnDCG@10\tone time: 0\t0.1\t0.3\taged: 0\t0.1\t0.3\t\n")
	for _, dir := range datasets(t) {
		set, err := recalleval.Load(open, dir)
		if err != nil {
			t.Error(err)
			continue
		}
		fmt.Fprintf(w, "%s\t", set.Name)
		var unweighed []float64
		for _, aged := range []bool{false, true} {
			for _, weight := range []float64{0, 0.1, 0.3} {
				r, err := recalleval.Run(t.Context(), set, recalleval.Options{ImportanceWeight: weight, Aged: aged})
				if err != nil {
					t.Fatal(err)
				}
				if weight == 0 {
					unweighed = append(unweighed, r.NDCG10)
				}
				fmt.Fprintf(w, "%.4f\t", r.NDCG10)
			}
		}
		if unweighed[0] != unweighed[1] {
			t.Errorf("%s: ages change nDCG@10 without a weight: %v", set.Name, unweighed)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	t.Log(b.String())
}
