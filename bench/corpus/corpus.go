// Package corpus generates the texts of benchmarks and tests. A text depends only
// on the seed and the number of the document, so any goroutine can generate any part
// of a corpus.
package corpus

import (
	"math"
	"math/rand/v2"
	"strings"
)

// The shape of the Zipf corpus.
const (
	vocabulary = 200_000 // distinct words
	exponent   = 1.07    // a word's frequency is rank^-exponent
	meanLen    = 79.5    // mean words per document, log-normal
	sigma      = 0.6     // standard deviation of the logarithm of the length
	stopRanks  = 50      // number of most frequent words that queries exclude
)

// Zipf is a corpus of artificial words with the frequency distribution of a
// natural language, about 505 bytes per document.
type Zipf struct {
	seed  uint64
	words []string
	// Tables of Walker's alias method. It draws a slot, and keeps it with probability
	// keep. Otherwise it uses the slot's alias.
	keep  []float64
	alias []int32
}

// NewZipf returns the corpus for a seed.
func NewZipf(seed uint64) *Zipf {
	z := &Zipf{seed: seed, words: words(seed)}
	weights := make([]float64, vocabulary)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -exponent)
	}
	z.keep, z.alias = aliasTable(weights)
	return z
}

// words returns distinct lower-case words, by rank. Frequent words are shorter.
func words(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 1))
	const letters = "eeeeetttaaaooiiinnsssrrhhlddcumfpgwybvkxjqz"
	seen := make(map[string]bool, vocabulary)
	list := make([]string, 0, vocabulary)
	for len(list) < vocabulary {
		mean := 4.1 + 0.55*math.Log10(float64(len(list)+1))
		n := min(max(int(math.Round(mean+1.7*r.NormFloat64())), 3), 14)
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		// Short words start with two consonants. So only "from" can be a stop word of
		// the plain analyzer.
		if n <= 4 {
			b[0] = "bcdfghjklmnpqrstvwxz"[r.IntN(20)]
			b[1] = "bcdfgjklmnpqrstvwxz"[r.IntN(19)]
		}
		if w := string(b); !seen[w] && w != "from" {
			seen[w] = true
			list = append(list, w)
		}
	}
	return list
}

func aliasTable(weights []float64) (keep []float64, alias []int32) {
	n := len(weights)
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	keep, alias = make([]float64, n), make([]int32, n)
	var small, large []int32
	for i, w := range weights {
		keep[i] = w / sum * float64(n)
		if keep[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		alias[s] = l
		keep[l] -= 1 - keep[s]
		if keep[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) {
		keep[i] = 1
	}
	return keep, alias
}

// rank draws the rank of a word.
func (z *Zipf) rank(r *rand.Rand) int {
	i := r.IntN(vocabulary)
	if r.Float64() < z.keep[i] {
		return i
	}
	return int(z.alias[i])
}

// Doc returns document i.
func (z *Zipf) Doc(i int) string {
	r := rand.New(rand.NewPCG(z.seed, uint64(i)<<1|1<<63))
	n := max(int(math.Round(math.Exp(math.Log(meanLen)-sigma*sigma/2+sigma*r.NormFloat64()))), 1)
	var b strings.Builder
	b.Grow(8 * n)
	for j := range n {
		if j > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(z.words[z.rank(r)])
	}
	return b.String()
}

// Docs returns documents 0 to n-1.
func (z *Zipf) Docs(n int) []string {
	docs := make([]string, n)
	for i := range docs {
		docs[i] = z.Doc(i)
	}
	return docs
}

// Queries returns n queries of 2 to 8 words, without the stopRanks most
// frequent words.
func (z *Zipf) Queries(n int) []string { return z.queries(n, stopRanks) }

// FrequentQueries returns n queries of 2 to 8 words that include the most frequent
// words.
func (z *Zipf) FrequentQueries(n int) []string { return z.queries(n, 0) }

// queries returns n queries without the most frequent words.
func (z *Zipf) queries(n, without int) []string {
	r := rand.New(rand.NewPCG(z.seed, 2))
	queries := make([]string, n)
	for i := range queries {
		terms := make([]string, 0, 8)
		for range 2 + r.IntN(7) {
			rank := z.rank(r)
			for rank < without {
				rank = z.rank(r)
			}
			terms = append(terms, z.words[rank])
		}
		queries[i] = strings.Join(terms, " ")
	}
	return queries
}

// SyntheticQuery is the query for the synthetic corpus.
const SyntheticQuery = "agent memory recall session"

// syntheticWords contains the 109 words of the synthetic corpus.
var syntheticWords = strings.Fields(`
agent memory recall session archive alias anchor answer backlog backup balance
beacon binary branch bridge bucket buffer builder cabinet caller carrier channel
chapter circuit client cluster codec column commit compass context copper
courier cursor daemon decoder delta device digest drawer driver editor encoder
engine entry event factor feature filter folder forest format frame gateway
glossary graph harbor header history index invoice journal kernel ladder lantern
ledger library limit listener locker marker matrix merge meter mirror module
needle network notebook object orbit packet pattern pilot planet pointer portal
prompt query queue ranking reader record rudder runtime schema shelf signal
socket stream summary syntax tablet ticket timer token vector writer zephyr
`)

// Synthetic returns document i of the synthetic corpus. It takes 20 to 34 words from
// the vocabulary in a fixed stride. There are only a few hundred different documents,
// so many documents have equal scores.
func Synthetic(i int) string {
	n := 20 + 7*i%21
	var b strings.Builder
	for j := range n {
		if j > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(syntheticWords[(31*i+17*j)%len(syntheticWords)])
	}
	return b.String()
}
