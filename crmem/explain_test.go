package crmem_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
	"crabmem/fuzz/race"
)

// TestExplained compares explanations with search results, for the queries of
// the recall cases and every entry.
func TestExplained(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	if testing.Short() {
		explained(t, casesDir, 8, 125, 12_500, 0)
		explained(t, conversationsDir, 8, 50, 500, 50)
		return
	}
	explained(t, casesDir, 1, 1000, 100_000, 0)
	explained(t, conversationsDir, 1, 400, 5000, 1000)
}

// explained is TestExplained for a part of the cases of dir. It expects least numbers of
// texts read, of pairs, and of boosts by neighbors.
func explained(t *testing.T, dir string, part, reads, enough, boosts int) {
	entries := caseEntries(t, dir)
	s := caseStore(t, entries)
	cases := recallCases(t, dir, entries)
	cases = cases[:len(cases)/part]
	pairs, checked, read, boosted := 0, 0, 0, 0
	for _, c := range cases {
		for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
			q := crmem.Query{Text: c.query, Analyzer: a}
			r, err := s.Search(t.Context(), q)
			ok(t, err)
			found := map[uint64]float64{}
			for _, h := range r.Hits {
				found[h.ID] = h.Score
			}
			for id := range uint64(len(entries)) {
				if pairs++; pairs%3 != 0 && found[id+1] == 0 { // of those that do not match a third is enough
					continue
				}
				x, there, err := s.Explain(t.Context(), q, id+1)
				ok(t, err)
				sum := explainedSum(t, x)
				boosted += len(x.Boosts)
				if !there || x.Score != sum || x.Score != found[id+1] {
					t.Fatalf("%v query %.80q: entry %d has score %v, explained as %v, lines sum to %v", a, c.query, id+1, found[id+1], x.Score, sum)
				}
				checked++
				if x.Read {
					read++
				}
			}
		}
	}
	if read < reads || checked < enough || boosted < boosts {
		t.Errorf("%s: %d pairs, %d texts were read, %d boosts", dir, checked, read, boosted)
	}
	t.Logf("explained to the bit: %d pairs of query and entry, %d of them read", checked, read)
}

// explainedSum adds the parts of an explanation in their order.
func explainedSum(t *testing.T, x bm25.Explanation) float64 {
	t.Helper()
	sum := 0.0
	for _, l := range x.Terms {
		sum += l.Contribution
	}
	for _, l := range x.Near {
		sum += l.Contribution
	}
	for _, l := range x.Terms {
		sum += l.Early
	}
	for _, l := range x.Terms {
		sum += l.Exact
	}
	sum += x.Named
	for _, b := range x.Boosts {
		if sum += b.Contribution; b.Name == "" {
			t.Errorf("entry %d: a boost without a name", x.ID)
		}
	}
	if x.Prior > 0 {
		sum = float64(sum*x.Prior) + x.Group
	}
	if x.Factor > 0 {
		sum *= x.Factor
	}
	return sum
}

// TestExplainedPairs checks that the parts of a score add up to it, bit for bit, for random
// queries over messages with neighbors, authors, dates, importance, vectors, and ages.
// CRABMEM_PAIRS is the number of pairs of query and hit.
func TestExplainedPairs(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	want, err := strconv.Atoi(os.Getenv("CRABMEM_PAIRS"))
	if err != nil {
		want = 3000
	}
	rng := rand.New(rand.NewPCG(11, 12))
	entries := caseEntries(t, conversationsDir)
	m, _ := embedtest.New()
	s := crmem.New(&crmem.Options{Embed: m, ImportanceWeight: 0.3, Now: func() time.Time { return caseDay }})
	t.Cleanup(func() { ok(t, s.Close()) })
	var words []string
	for i, e := range entries {
		e.ID = uint64(i + 1)
		ok(t, s.Apply(crmem.Restore{Entry: e}))
		words = append(words, strings.Fields(e.Content)...)
	}
	ok(t, s.EmbedAll(t.Context(), nil))
	times := []string{"", "", "in April ", "last week ", "on 14 March "}
	var pairs, boosts, priors, dates, groups, cosines, byMeaning int
	for pairs < want {
		text := times[rng.IntN(len(times))]
		for range 1 + rng.IntN(5) {
			text += words[rng.IntN(len(words))] + " "
		}
		q := crmem.Query{Text: text, Limit: []int{0, 1, 10, 300}[rng.IntN(4)], Explain: true, Diverse: rng.IntN(4) == 0,
			HalfLife: time.Duration(rng.IntN(2)) * 300 * time.Hour}
		if rng.IntN(4) > 0 {
			q.Semantic = &fusion.Request{Fusion: []fusion.Method{fusion.Convex, fusion.ReciprocalRank}[rng.IntN(2)], Weight: rng.Float64()}
		}
		r, err := s.Search(t.Context(), q)
		ok(t, err)
		for i, h := range r.Hits {
			x := r.Explanations[i]
			score := explainedSum(t, x)
			if x.ID != h.ID || x.Score != score {
				t.Fatalf("%q: entry %d: explanation of %d has score %v, lines sum to %v", text, h.ID, x.ID, x.Score, score)
			}
			if h.Importance != nil {
				score *= h.Importance.Factor
			}
			if h.Fused != nil {
				if h.Fused.Lexical != score {
					t.Fatalf("%q: entry %d: by words %v, explained as %v", text, h.ID, h.Fused.Lexical, score)
				}
				score = h.Fused.Score()
				if h.Fused.Cosine != nil {
					cosines++
				}
				if h.Fused.Lexical == 0 {
					byMeaning++
				}
			}
			if h.Decay > 0 {
				score *= h.Decay
			}
			if score != h.Score {
				t.Fatalf("%q, %+v: entry %d has score %v, explained as %v", text, q.Semantic, h.ID, h.Score, score)
			}
			pairs++
			boosts += len(x.Boosts)
			for _, part := range []struct {
				n  *int
				is bool
			}{{&priors, x.Prior > 0 && x.Prior < 1}, {&dates, x.Factor > 0}, {&groups, x.Group > 0}} {
				if part.is {
					*part.n++
				}
			}
		}
	}
	if least := want / 100; boosts < least || priors < least || dates < least || groups < least || cosines < least || byMeaning < least {
		t.Errorf("too few parts: %d boosts, %d priors, %d dates, %d conversations, %d cosines, %d by meaning", boosts, priors, dates, groups, cosines, byMeaning)
	}
	t.Logf("explained to the bit: %d pairs, with %d boosts, %d priors, %d dates, %d conversations, %d cosines, %d only by meaning",
		pairs, boosts, priors, dates, groups, cosines, byMeaning)
}
