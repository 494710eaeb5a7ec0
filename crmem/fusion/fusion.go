// Package fusion combines scores by words with the meaning of texts.
package fusion

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"crabmem/crmem/embed"
	"crabmem/crmem/vector"
)

// Method is a way to combine the scores of words with those of meaning.
type Method string

// The methods. DESIGN.md has the formulas.
const (
	Convex         Method = ""                // weighted mean of normalized scores
	ReciprocalRank Method = "reciprocal_rank" // sum of 1 / (60 + rank)
)

// ParseMethod returns the method of a name: convex or reciprocal_rank.
func ParseMethod(name string) (Method, error) {
	switch m := Method(name); m {
	case "convex":
		return Convex, nil
	case Convex, ReciprocalRank:
		return m, nil
	}
	return "", fmt.Errorf("%q: want convex or reciprocal_rank", name)
}

// DefaultWeight and StaticWeight are the weights of meaning in a convex fusion, of models
// that read sentences and of static ones. DESIGN.md has measurements.
const (
	DefaultWeight = 0.3
	StaticWeight  = 0.07
)

// Least is the least number of texts that meaning finds.
const Least = 100

const (
	fullScore      = 1.5             // share of the query's IDFs in a score by words of 1
	leastBest      = 0.5             // of the best text by words
	rankConstant   = 60              // of ReciprocalRank
	defaultTimeout = 3 * time.Second // to embed a query
)

// Request is a request to rank by meaning, too.
type Request struct {
	Fusion  Method
	Weight  float64       // of meaning in a convex fusion, above 0 and at most 1; 0: the model's default
	Timeout time.Duration // of the request for the vector of the query; 0: 3 s
	// Lead, if above 1, skips meaning for a query whose best match by words has at least
	// this multiple of the score of the second.
	Lead float64
	// Complete first embeds all texts that have no vector, and shows the progress.
	Complete bool
}

// Meaning describes what the meaning of a query contributed to a result.
type Meaning struct {
	Used bool `json:"used"`
	// Reason is why the result is by words only. It is empty if Used is true.
	Reason  string `json:"reason,omitempty"`
	Model   string `json:"model,omitempty"`
	Missing int    `json:"missing"` // texts without a vector, which only words find

	query *vector.Query // nil if only words count
}

// Query returns the vector of the query, or nil if only words count.
func (m *Meaning) Query() *vector.Query {
	if m == nil {
		return nil
	}
	return m.query
}

// ByWords ends the use of meaning with a reason.
func (m *Meaning) ByWords(format string, args ...any) {
	m.query = nil
	m.Used, m.Reason = false, fmt.Sprintf(format, args...)
}

// UnknownWords is the Reason of a [Meaning] for a query that the model cannot represent.
const UnknownWords = "the model does not know the words of the query"

// Embed asks the model for the vector of a query.
func (m *Meaning) Embed(ctx context.Context, model *embed.Model, text string, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(timeout, defaultTimeout))
	defer cancel()
	switch v, err := model.Query(ctx, text); {
	case err != nil:
		m.ByWords("%v", err)
	case v == nil:
		m.ByWords(UnknownWords)
	default:
		m.Used, m.query = true, vector.NewQuery(v)
	}
}

// Merge returns what two results lack together.
func (m *Meaning) Merge(o *Meaning) *Meaning {
	if m == nil || o == nil {
		return cmp.Or(m, o)
	}
	sum := *m
	if !o.Used {
		sum.Used, sum.Reason = false, o.Reason
	}
	sum.Missing += o.Missing
	return &sum
}

// Note returns what a result lacks, or "". The text is what the result finds: "entry" and
// "entries", or "message" and "messages".
func (m *Meaning) Note(one, many string) string {
	switch {
	case m == nil:
		return ""
	case !m.Used:
		return "by words only: " + m.Reason
	case m.Missing == 1:
		return "1 " + one + " only by words: it has no vector yet"
	case m.Missing > 0:
		return fmt.Sprintf("%d %s only by words: they have no vectors yet", m.Missing, many)
	}
	return ""
}

// Fused is how a score was combined. Score is, for a convex fusion, (1 - Weight) * Words +
// Weight * Meaning, and otherwise Words + Meaning.
type Fused struct {
	Fusion Method  `json:"fusion"`
	Weight float64 `json:"weight,omitempty"`
	// Lexical is the score by words, with importance; 0: no match. Cosine is that of the
	// vectors of the query and the text; nil: no vector. Both are followed by the values
	// that count as 0 and as 1. For cosines, they are the least and the largest among the
	// texts that words or meaning found, but the largest is 1 if the model reads sentences.
	Lexical float64    `json:"lexical"`
	Scores  [2]float64 `json:"scores"`
	Cosine  *float64   `json:"cosine,omitempty"`
	Cosines [2]float64 `json:"cosines"`
	// Ranks by words and by meaning, from 1; 0: none. Only for ReciprocalRank.
	LexicalRank int `json:"lexical_rank,omitempty"`
	MeaningRank int `json:"meaning_rank,omitempty"`
	// Words and Meaning are the normalized scores or the reciprocal ranks.
	Words   float64 `json:"words"`
	Meaning float64 `json:"meaning"`
}

// Score returns the combined score.
func (f *Fused) Score() float64 {
	if f.Fusion == ReciprocalRank {
		return f.Words + f.Meaning
	}
	return float64((1-f.Weight)*f.Words) + float64(f.Weight*f.Meaning)
}

// A Candidate is a text that words or meaning found.
type Candidate struct {
	Lexical float64  // score by words; 0: not found
	Cosine  *float64 // nil: no vector
	Rank    int      // by meaning, from 1; 0: not found
}

// Combine returns how the score of each candidate is combined. The candidates that words
// found come first, the best first. rarity is the sum of the query's word IDFs.
//
// If the model reads sentences, a score by words is divided by the best one, or by the score
// of a text that matches the whole query if that is larger. So weak matches stay weak; the
// best one counts as leastBest at least. Meaning is the squared place of the cosine between
// the least one, 0, and that of equal texts, 1. So the nearest of unrelated texts is not near.
//
// A static model sees little more than words. For it, the least score and cosine count as 0,
// and the best ones as 1.
func (r *Request) Combine(m *embed.Model, rarity float64, list []Candidate) []*Fused {
	var scores, cosines bounds
	for _, c := range list {
		if c.Lexical > 0 {
			scores.add(c.Lexical)
		}
		if c.Cosine != nil {
			cosines.add(*c.Cosine)
		}
	}
	weight, nearest := StaticWeight, cosines.of[1]
	if best := scores.of[1]; !m.Static {
		weight, scores.of = DefaultWeight, [2]float64{0, max(best, min(fullScore*rarity, best/leastBest))}
		if cosines.of[0] != nearest {
			cosines.add(1)
		}
	}
	all := make([]*Fused, len(list))
	for i, c := range list {
		f := &Fused{Fusion: r.Fusion, Lexical: c.Lexical, Scores: scores.of, Cosine: c.Cosine, Cosines: cosines.of}
		if f.Fusion == ReciprocalRank {
			f.rank(i+1, c.Rank)
		} else {
			f.normalize(cmp.Or(r.Weight, weight), nearest, m.Static)
		}
		all[i] = f
	}
	return all
}

// rank computes the parts of a fusion of ranks.
func (f *Fused) rank(lexical, meaning int) {
	if f.Lexical > 0 {
		f.LexicalRank, f.Words = lexical, 1/float64(rankConstant+lexical)
	}
	if meaning > 0 {
		f.MeaningRank, f.Meaning = meaning, 1/float64(rankConstant+meaning)
	}
}

// normalize computes the parts of a convex fusion. Without a vector, a text neither gains
// nor loses: its meaning is the share of the best meaning that its words are of all words.
func (f *Fused) normalize(weight, nearest float64, static bool) {
	f.Weight = weight
	if f.Lexical > 0 {
		f.Words = position(f.Lexical, f.Scores)
	}
	share := f.Words
	if f.Cosine != nil {
		nearest, share = *f.Cosine, 1
	}
	place := position(nearest, f.Cosines)
	if !static {
		place *= place
	}
	f.Meaning = share * place
}

// position returns the place of a value between two bounds, from 0 to 1.
func position(x float64, bounds [2]float64) float64 {
	if bounds[0] == bounds[1] {
		return 1
	}
	return (x - bounds[0]) / (bounds[1] - bounds[0])
}

// bounds are the least and the largest of some values.
type bounds struct {
	of  [2]float64
	has bool
}

func (b *bounds) add(x float64) {
	if !b.has {
		b.of, b.has = [2]float64{x, x}, true
	}
	b.of[0], b.of[1] = min(b.of[0], x), max(b.of[1], x)
}
