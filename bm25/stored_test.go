package bm25_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"

	"github.com/google/go-cmp/cmp"
)

// write returns what WriteTo writes.
func write(t testing.TB, x *bm25.Index) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := x.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func open(t testing.TB, b []byte, a analysis.Analyzer) *bm25.Index {
	t.Helper()
	x, err := bm25.Open(bytes.NewReader(b), int64(len(b)), a)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// storedSets returns the number of random sets of documents: CRABMEM_STORED or 60.
func storedSets(t *testing.T) int {
	if s := os.Getenv("CRABMEM_STORED"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if gate.Enforced() {
		return 60
	}
	return 10
}

// storedWords are words that inflect, misspell, join and split, of several scripts.
var storedWords = strings.Fields(`the of and run runs running ran runner walk walked walking walks kubernetes kubernetEs Kubernetes
	kubelet kubelets vacuum auto autovacuum autovacuums getUserName userName rate_limit rateLimit v2.6.1 utf8 sha256 4GiB HTTP 404 2026-03-04 universe
	universal universities mice mouse children child went go goes İstanbul istanbul Éclair eclair naïveté серверы сервера сервер казань
	記憶 東京都庁 数据库 데이터베이스 הספר ספר פגישה הפגישה don't user's yourself internationalization internationalize observability observable 7 x
	connection connections connected connector connect database databases cannot can not`)

func storedText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		w := storedWords[min(r.IntN(len(storedWords)), r.IntN(len(storedWords)))]
		switch r.IntN(12) {
		case 0:
			w = strings.ToUpper(w[:1]) + w[1:]
		case 1:
			w = fmt.Sprint(w, r.IntN(30))
		case 2:
			w = fmt.Sprintf("w%dq%c", r.IntN(40), 'a'+r.IntN(26))
		}
		b.WriteString(w)
		b.WriteString([]string{" ", " ", " ", " ", "-", ", ", "\n", "/"}[r.IntN(8)])
	}
	return b.String()
}

func storedDoc(r *rand.Rand, id uint64) bm25.Doc {
	d := bm25.Doc{ID: id, Class: uint8(r.IntN(8))}
	switch r.IntN(50) {
	case 0: // no terms
	case 1:
		d.Fields = []string{strings.Repeat("walking ", 13+r.IntN(5)) + storedText(r, 4)}
	case 2:
		d.Fields = []string{strings.Repeat("hay ", 4080+r.IntN(30)) + storedText(r, 4)}
	default:
		d.Fields = []string{storedText(r, r.IntN(4)), storedText(r, r.IntN(20))}
	}
	return d
}

func storedQuery(r *rand.Rand, docs map[uint64]bm25.Doc, ids []uint64) bm25.Query {
	text := storedText(r, 1+r.IntN(4))
	switch r.IntN(4) {
	case 0:
		text = misspelled(r, text)
	case 1:
		text = []string{"auto vacuum", "the of and", "kuberntes walkin", "conection databses", "kuber", "yourself", "your self", "unive"}[r.IntN(8)]
	}
	q := bm25.Query{Text: text, Limit: []int{0, 1, 5, 100}[r.IntN(4)], Count: r.IntN(2) == 0, Explain: r.IntN(3) == 0, Correct: r.IntN(4) > 0}
	if r.IntN(3) == 0 {
		q.Classes = uint8(r.IntN(256))
	}
	if r.IntN(4) == 0 {
		q.Filter = func(id uint64) bool { return id%3 != 0 }
	}
	if r.IntN(2) == 0 {
		q.Texts = func(id uint64) []string { return docs[id].Fields }
		if len(ids) > 0 {
			q.Named = []uint64{ids[r.IntN(len(ids))], ids[r.IntN(len(ids))]}
		}
	}
	return q
}

// compareSearches makes searches of all kinds on two indexes of the same documents.
func compareSearches(t *testing.T, what string, r *rand.Rand, want, got *bm25.Index, docs map[uint64]bm25.Doc, same func(a, b bm25.Result) string) {
	t.Helper()
	ids := slices.Sorted(maps.Keys(docs))
	q := storedQuery(r, docs, ids)
	if diff := same(want.Search(q), got.Search(q)); diff != "" {
		t.Fatalf("%s: %+v:\n%s", what, q, diff)
	}
	if len(ids) > 0 {
		id := ids[r.IntN(len(ids))]
		a, okA := want.Explain(q, id)
		b, okB := got.Explain(q, id)
		if diff := cmp.Diff(a, b); okA != okB || diff != "" {
			t.Fatalf("%s: explain %d for %+v:\n%s", what, id, q, diff)
		}
	}
	q.Explain, q.Texts = true, func(id uint64) []string { return docs[id].Fields }
	q.Context = &bm25.Context{Weights: bm25.DefaultWeights, Message: func(id uint64) (m bm25.Message, ok bool) {
		m = bm25.Message{Conversation: id / 10, Asks: analysis.Asked(strings.Join(docs[id].Fields, " ") + "?"), Next: id + 1, HasNext: true}
		if i := slices.Index(ids, id); i > 0 {
			m.Previous, m.HasPrevious = ids[i-1], true
		}
		return m, id%3 > 0
	}}
	if diff := same(want.Search(q), got.Search(q)); diff != "" {
		t.Fatalf("%s: context %+v:\n%s", what, q, diff)
	}
}

func sameResults(a, b bm25.Result) string { return cmp.Diff(a, b) }

// TestStored compares an opened index and a loaded one with the index in memory that
// was written, before and after the same changes.
func TestStored(t *testing.T) {
	race.Skip(t)
	for seed := range uint64(storedSets(t)) {
		testStored(t, seed+1)
	}
}

func testStored(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 17))
	what := fmt.Sprint("seed ", seed)
	a := []analysis.Analyzer{analysis.Standard, analysis.Standard, analysis.Plain}[r.IntN(3)]
	bm25.SetTailDocs(t, []int{3, 16, 200}[r.IntN(3)])
	spread := []uint64{1, 1, 7, 1 << 40, 1 << 56}[r.IntN(5)]
	docs := map[uint64]bm25.Doc{}
	x := bm25.New(a)
	if r.IntN(2) == 0 {
		var list []bm25.Doc
		for i := range r.IntN(80) {
			list = append(list, storedDoc(r, uint64(i)*spread))
			docs[uint64(i)*spread] = list[i]
		}
		if err := x.Build(t.Context(), len(list), func(i int) bm25.Doc { return list[i] }); err != nil {
			t.Fatal(err)
		}
	}
	change := func(indexes ...*bm25.Index) {
		id := uint64(r.IntN(100)) * spread
		if d := storedDoc(r, id); r.IntN(3) > 0 {
			docs[id] = d
			for _, x := range indexes {
				x.Add(d)
			}
			return
		}
		_, want := docs[id]
		delete(docs, id)
		for i, x := range indexes {
			if got := x.Remove(id); got != want {
				t.Fatalf("%s: index %d: Remove(%d) = %v, want %v", what, i, id, got, want)
			}
		}
	}
	for range r.IntN(120) {
		change(x)
	}
	b := write(t, x)
	opened := open(t, b, a)
	loaded, err := bm25.Load(t.Context(), bytes.NewReader(b), int64(len(b)), a)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if again := write(t, loaded); !bytes.Equal(again, b) {
		t.Fatalf("%s: a loaded index writes other bytes", what)
	}
	for step := range 12 {
		if opened.Len() != x.Len() {
			t.Fatalf("%s: %d documents, want %d", what, opened.Len(), x.Len())
		}
		for range 4 {
			compareSearches(t, fmt.Sprintf("%s step %d: opened", what, step), r, x, opened, docs, sameResults)
			compareSearches(t, fmt.Sprintf("%s step %d: loaded", what, step), r, x, loaded, docs, sameResults)
		}
		for range r.IntN(8) {
			change(x, opened, loaded)
		}
	}
	if err := opened.Err(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	fresh := bm25.New(a)
	for _, d := range docs {
		fresh.Add(d)
	}
	for range 10 {
		compareSearches(t, what+": fresh", r, fresh, opened, docs, func(a, b bm25.Result) string {
			if !slices.EqualFunc(a.Corrections, b.Corrections, func(a, b bm25.Correction) bool { return cmp.Equal(a, b) }) {
				return "" // removed documents contained word forms
			}
			return cmp.Diff(a, b)
		})
	}
}

// misspelled changes a text's longest word.
func misspelled(r *rand.Rand, text string) string {
	fields := strings.Fields(text)
	longest := slices.MaxFunc(fields, func(a, b string) int { return len([]rune(a)) - len([]rune(b)) })
	runes := []rune(longest)
	if len(runes) < 2 {
		return text
	}
	i := r.IntN(len(runes) - 1)
	runes[i], runes[i+1] = runes[i+1], runes[i]
	if r.IntN(2) == 0 {
		runes = runes[:1+len(runes)/2]
	}
	return strings.Replace(text, longest, string(runes), 1)
}
