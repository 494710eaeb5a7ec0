package crmem_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
	"crabmem/crmem/vfs/faultfs"
)

// rankedStore is a store with random notes, and what the oracles know of them.
type rankedStore struct {
	*crmem.Store
	now      time.Time
	used     map[uint64]time.Time // last read, else last change, else creation
	identity map[uint64]bool
	links    map[uint64][]uint64
}

var rankWords = []string{"sail", "rope", "tide", "anchor", "mast", "keel"}

func randomWords(rng *rand.Rand, n int) string {
	list := make([]string, 1+rng.IntN(n))
	for i := range list {
		list[i] = rankWords[rng.IntN(len(rankWords))]
	}
	return strings.Join(list, " ")
}

// newRankedStore writes notes, changes some later, and reads some after that, by a fake
// clock that each step moves.
func newRankedStore(t *testing.T, rng *rand.Rand) *rankedStore {
	t.Helper()
	disk := faultfs.NewMem()
	r := &rankedStore{now: time.Unix(1_700_000_000, 0), used: map[uint64]time.Time{}, identity: map[uint64]bool{}, links: map[uint64][]uint64{}}
	open := func() {
		s, err := crmem.Open("/m.db", &crmem.Options{FS: disk, CountReads: true, Now: func() time.Time { return r.now }})
		ok(t, err)
		r.Store = s
	}
	open()
	t.Cleanup(func() { ok(t, r.Close()) })
	n := 3 + rng.IntN(10)
	write := func(id uint64) {
		text := randomWords(rng, 6)
		r.links[id] = nil
		for range rng.IntN(3) {
			to := uint64(1 + rng.IntN(n))
			r.links[id] = append(r.links[id], to)
			text += fmt.Sprintf(" [[n%d]]", to)
		}
		if r.identity[id] {
			text = "---\ntype: Identity\n---\n" + text
		}
		_, err := r.Remember(fmt.Sprint("n", id), text, nil)
		ok(t, err)
		r.used[id] = r.now
	}
	step := func() { r.now = r.now.Add(time.Duration(1+rng.IntN(1000)) * time.Hour) }
	for id := uint64(1); id <= uint64(n); id++ {
		r.identity[id] = rng.IntN(4) == 0
		write(id)
		step()
	}
	for range rng.IntN(n) { // changes
		write(uint64(1 + rng.IntN(n)))
		step()
		if rng.IntN(4) == 0 { // the next process reads the history
			ok(t, r.Close())
			open()
		} else if rng.IntN(3) == 0 { // this one knows it before the next change
			r.search(t, crmem.Query{Text: "sail", HalfLife: time.Hour})
		}
	}
	for range rng.IntN(n) { // reads
		id := uint64(1 + rng.IntN(n))
		_, err := r.Get(fmt.Sprint("n", id))
		ok(t, err)
		r.used[id] = r.now
		step()
	}
	return r
}

func (r *rankedStore) search(t *testing.T, q crmem.Query) []crmem.Hit {
	t.Helper()
	q.Uncounted = true
	found, err := r.Search(t.Context(), q)
	ok(t, err)
	return found.Hits
}

func byScore(hits []crmem.Hit) {
	slices.SortStableFunc(hits, func(a, b crmem.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
}

func sameHits(a, b []crmem.Hit) bool {
	return slices.EqualFunc(a, b, func(x, y crmem.Hit) bool { return x.ID == y.ID && math.Abs(x.Score-y.Score) < 1e-12 })
}

// TestRankOptions compares half-life, threshold, diversity, and links with their
// definitions, over random stores.
func TestRankOptions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		r := newRankedStore(t, rng)
		for range 5 {
			q := crmem.Query{Text: randomWords(rng, 3)}
			all := r.search(t, q)
			half := time.Duration(1+rng.IntN(2000)) * time.Hour
			want := slices.Clone(all)
			for i := range want {
				h := &want[i]
				if !r.identity[h.ID] {
					h.Score *= math.Exp2(-r.now.Sub(r.used[h.ID]).Hours() / half.Hours())
				}
			}
			byScore(want)
			if got := r.search(t, crmem.Query{Text: q.Text, HalfLife: half, Limit: len(all)}); !sameHits(got, want) {
				t.Fatalf("store %d, %q, half-life %v:\n%v, want\n%v", i, q.Text, half, scored(got), scored(want))
			}
			share := rng.Float64()
			want = slices.DeleteFunc(slices.Clone(all), func(h crmem.Hit) bool { return h.Score < share*all[0].Score })
			if got := r.search(t, crmem.Query{Text: q.Text, MinShare: share}); !sameHits(got, want) {
				t.Fatalf("store %d, %q, share %v: %v, want %v", i, q.Text, share, scored(got), scored(want))
			}
			checkDiverse(t, r, q.Text, []float64{0, 0.2, 0.7, 1}[rng.IntN(4)], all)
			checkLinks(t, r, q.Text, rng.IntN(4))
		}
	}
}

func scored(hits []crmem.Hit) (list []string) {
	for _, h := range hits {
		list = append(list, fmt.Sprintf("%s %.6f", h.Name, h.Score))
	}
	return list
}

// checkDiverse checks that each hit has the largest value of those that are left.
func checkDiverse(t *testing.T, r *rankedStore, text string, lambda float64, all []crmem.Hit) {
	t.Helper()
	got := r.search(t, crmem.Query{Text: text, Diverse: true, Lambda: lambda, Limit: len(all)})
	if lambda == 0 {
		lambda = 0.7
	}
	words := func(h *crmem.Hit) map[string]bool {
		set := map[string]bool{}
		for w := range analysis.Standard.Tokens(metadata.Text(h.Content)) {
			set[w] = true
		}
		return set
	}
	alike := func(a, b *crmem.Hit) float64 {
		x, y, common := words(a), words(b), 0
		for w := range x {
			if y[w] {
				common++
			}
		}
		return float64(common) / float64(max(1, len(x)+len(y)-common))
	}
	value := func(h *crmem.Hit, chosen []crmem.Hit) float64 {
		near := 0.0
		for i := range chosen {
			near = max(near, alike(h, &chosen[i]))
		}
		return lambda*h.Score/all[0].Score - (1-lambda)*near
	}
	if len(got) != len(all) {
		t.Fatalf("%q: %d hits, want %d", text, len(got), len(all))
	}
	for i := range got {
		for j := i + 1; j < len(got); j++ {
			if a, b := value(&got[i], got[:i]), value(&got[j], got[:i]); b > a+1e-12 {
				t.Fatalf("%q, lambda %v: %v: hit %d has %v, and hit %d %v", text, lambda, scored(got), i+1, a, j+1, b)
			}
		}
	}
}

// checkLinks checks the entries that follow the hits: those within some links, the
// nearest first.
func checkLinks(t *testing.T, r *rankedStore, text string, links int) {
	t.Helper()
	got := r.search(t, crmem.Query{Text: text, Limit: 1, Expand: links})
	if len(got) == 0 {
		return
	}
	distance := map[uint64]int{got[0].ID: 0}
	for range 100 { // shortest paths, by relaxation
		for from, targets := range r.links {
			for _, to := range targets {
				d, known := distance[from]
				if old, has := distance[to]; known && (!has || d+1 < old) {
					distance[to] = d + 1
				}
			}
		}
	}
	want := 1
	for id, d := range distance {
		if id != got[0].ID && d <= links {
			want++
		}
	}
	last := 0
	for _, h := range got[1:] {
		if d, known := distance[h.ID]; !known || d < max(last, 1) || d > links || h.Marks == nil || h.Marks.Linked == nil {
			t.Fatalf("%q, %d links: %v has distance %d", text, links, h.Name, d)
		} else {
			last = d
		}
	}
	if len(got) != want {
		t.Fatalf("%q, %d links: %d hits, want %d", text, links, len(got), want)
	}
}

// TestImportanceOfQuery checks that the weight of a query replaces that of the store.
func TestImportanceOfQuery(t *testing.T) {
	stores := make([]*crmem.Store, 2)
	for i := range stores {
		stores[i] = crmem.New(&crmem.Options{ImportanceWeight: float64(i) * 0.5, Now: func() time.Time { return time.Unix(1e9, 0) }})
		defer stores[i].Close()
		ok(t, stores[i].Apply(crmem.Add{Name: "a", Content: "sail sail"}, crmem.Add{Name: "b", Content: "---\nimportance: 1\n---\nsail rope"}))
	}
	want := search(t, stores[1], crmem.Query{Text: "sail"})
	got := search(t, stores[0], crmem.Query{Text: "sail", Importance: 0.5})
	if !sameHits(got.Hits, want.Hits) || got.Hits[0].Importance == nil || sameHits(got.Hits, search(t, stores[0], crmem.Query{Text: "sail"}).Hits) {
		t.Errorf("%v, want %v", scored(got.Hits), scored(want.Hits))
	}
}

// TestReciprocalRank compares a fusion of ranks with its definition.
func TestReciprocalRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		m, _ := embedtest.New("sail canvas")
		s := crmem.New(&crmem.Options{Embed: m, Now: func() time.Time { return time.Unix(1e9, 0) }})
		defer s.Close()
		for i := range 3 + rng.IntN(12) {
			_, err := s.Remember(fmt.Sprint("n", i+1), randomWords(rng, 6), nil)
			ok(t, err)
		}
		ok(t, s.EmbedAll(t.Context(), nil))
		text := randomWords(rng, 2) + " canvas"
		ranks := map[uint64]float64{}
		for i, h := range search(t, s, crmem.Query{Text: text}).Hits {
			ranks[h.ID] += 1 / float64(60+i+1)
		}
		near := search(t, s, crmem.Query{Text: text, Semantic: &fusion.Request{}}).Hits
		slices.SortFunc(near, func(a, b crmem.Hit) int {
			return cmp.Or(cmp.Compare(*b.Fused.Cosine, *a.Fused.Cosine), cmp.Compare(a.ID, b.ID))
		})
		for i, h := range near {
			ranks[h.ID] += 1 / float64(60+i+1)
		}
		got := search(t, s, crmem.Query{Text: text, Semantic: &fusion.Request{Fusion: fusion.ReciprocalRank}}).Hits
		want := slices.Clone(got)
		for i := range want {
			want[i].Score = ranks[want[i].ID]
		}
		byScore(want)
		if len(got) != len(ranks) || !sameHits(got, want) {
			t.Fatalf("%q: %v, want %v", text, scored(got), scored(want))
		}
	}
}
