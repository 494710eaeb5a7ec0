package bm25_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/golden"
)

// reportWords are words of documents and queries: common and rare ones, forms of
// one word, names, numbers, other scripts, and bytes that are not UTF-8.
var reportWords = strings.Fields("alpha alpha alpha beta beta gamma delta running run ran runs configuration configure config deploy deployment deploys " +
	"getUserName user_name HTTP404 v2.6.1 10:30 café Café 記憶 記憶ストレージ серверы сервер 😀 x y z the a of it's don't naïve ab abc abcd abcde abcdef abcdefg mergesort merge sort " +
	"\x80 \x80word \xffalpha é日 東京 ñandú Ünïcode zeta eta theta iota kappa lambda omicron sigma tau upsilon")

func reportText(r *rand.Rand, words int) string {
	var b strings.Builder
	for range words {
		b.WriteString(reportWords[min(r.IntN(len(reportWords)), r.IntN(len(reportWords)))])
		b.WriteString([]string{" ", " ", " ", "-", "\n", ", ", "'"}[r.IntN(7)])
	}
	return b.String()
}

// TestReportsOfSearches compares the results of searches while an index changes:
// hits, totals, breakdowns, corrections, and sizes.
func TestReportsOfSearches(t *testing.T) {
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		bm25.SetTailDocs(t, 40)
		bm25.SetFewTerms(t, 30)
		var rep golden.Reports
		r := rand.New(rand.NewPCG(4, 4))
		x := bm25.New(a)
		texts := map[uint64][]string{}
		build := 0
		var initial []bm25.Doc
		for i := range 90 {
			id := uint64(1000 - 7*(i%13) - 100*(i/13))
			texts[id] = []string{reportText(r, 1+r.IntN(3)), reportText(r, r.IntN(40))}
			initial = append(initial, bm25.Doc{ID: id, Class: uint8(i % 3), Fields: texts[id]})
		}
		err := x.Build(t.Context(), len(initial), func(i int) bm25.Doc { build++; return initial[i] })
		rep.Addf("build", "%v, %d documents", err, build)
		again := bm25.New(a)
		rep.Addf("build twice the same", "%v, %+v", again.Build(t.Context(), 2, func(int) bm25.Doc { return initial[0] }), again.Stats().Docs)
		for step := range 130 {
			title := fmt.Sprint("step ", step)
			switch r.IntN(4) {
			case 0:
				id := uint64(r.IntN(1100))
				rep.Addf(title, "remove %d: %v", id, x.Remove(id))
				delete(texts, id)
			default:
				for range 1 + r.IntN(6) {
					id := uint64(r.IntN(1100))
					texts[id] = []string{reportText(r, 1+r.IntN(3)), reportText(r, r.IntN(30))}
					x.Add(bm25.Doc{ID: id, Class: uint8(r.IntN(3)), Fields: texts[id]})
				}
			}
			for n := range 3 {
				q := bm25.Query{Text: reportText(r, 1+r.IntN(4)), Limit: []int{0, 1, 2, 5, 16, 17, 40}[r.IntN(7)], Count: r.IntN(2) == 0, Explain: r.IntN(4) == 0, Correct: r.IntN(3) > 0}
				if r.IntN(6) == 0 {
					word := []rune(reportWords[r.IntN(len(reportWords))])
					q.Text = string(append(word[:len(word)/2], append([]rune("e"), word[len(word)/2:]...)...))
				}
				if r.IntN(3) == 0 {
					q.Classes = uint8(1 + r.IntN(7))
				}
				if r.IntN(3) == 0 {
					mod := uint64(2 + r.IntN(3))
					q.Filter = func(id uint64) bool { return id%mod != 0 }
				}
				read := 0
				if r.IntN(2) == 0 {
					q.Texts = func(id uint64) []string { read++; return texts[id] }
				}
				if r.IntN(3) == 0 {
					q.Named = []uint64{uint64(r.IntN(1100)), uint64(r.IntN(1100)), 1000}
				}
				result := x.Search(q)
				id := uint64(r.IntN(1100))
				if len(result.Hits) > 0 {
					id = result.Hits[r.IntN(len(result.Hits))].ID
				}
				e, ok := x.Explain(q, id)
				breakdowns := sha256.Sum256(fmt.Appendf(nil, "%+v %+v", result.Explanations, e))
				rep.Add(fmt.Sprintf("%s.%d %q limit %d count %v classes %d filter %v texts %v named %v", title, n, q.Text, q.Limit, q.Count, q.Classes, q.Filter != nil, q.Texts != nil, q.Named),
					fmt.Sprintf("%v\ntotal %d, read %d\n%+v\nexplain %d: %v %v, %x", result.Hits, result.Total, read, result.Corrections, id, e.Score, ok, breakdowns[:4]))
			}
			s := x.Stats()
			rep.Addf(title, "%d documents, %d terms, %d postings, %d segments, length %d", s.Docs, s.Terms, s.Postings, s.Segments, x.Len())
		}
		rep.Compare(t, fmt.Sprintf("testdata/reports/searches-%v.txt.gz", a))
	}
}

// TestFilterCalls checks that a search with a limit does not filter documents that
// cannot be hits.
func TestFilterCalls(t *testing.T) {
	x := bm25.New(analysis.Plain)
	for i := range 1000 {
		x.Add(bm25.Doc{ID: uint64(1000 - i), Fields: []string{"word"}}) // searches read the last first
	}
	for _, count := range []bool{false, true} {
		calls := 0
		res := x.Search(bm25.Query{Text: "word", Limit: 5, Count: count, Filter: func(id uint64) bool { calls++; return true }})
		if want := map[bool]int{false: 5, true: 1000}[count]; calls != want || len(res.Hits) != 5 || res.Hits[4].ID != 5 {
			t.Errorf("count %v: %d calls of the filter, want %d; hits %v", count, calls, want, res.Hits)
		}
	}
}

// TestBytesOfCorrection checks that the size of an index includes the lists that
// spelling correction makes.
func TestBytesOfCorrection(t *testing.T) {
	x := bm25.New(analysis.Standard)
	for i := range 500 {
		x.Add(bm25.Doc{ID: uint64(i + 1), Fields: []string{fmt.Sprintf("configuration%c%c", 'a'+i%26, 'a'+i/26)}})
	}
	before := x.Stats().Bytes
	r := x.Search(bm25.Query{Text: "comfigurationab", Limit: 3, Correct: true})
	if after := x.Stats().Bytes; len(r.Corrections) != 1 || after < before+8*500 {
		t.Errorf("%d bytes, %d after %+v", before, after, r.Corrections)
	}
}
