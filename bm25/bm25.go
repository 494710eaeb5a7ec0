// Package bm25 is an in-memory inverted index with BM25 ranking.
//
// Documents are texts under a number of the caller's choosing. A search returns
// exactly the documents with the highest scores: score descending, then ID
// ascending. A score is a float64 sum in ascending order of the query's terms
// and depends on the set of documents only, never on the order in which they
// came or on what was removed.
//
// DESIGN.md gives the reasons for the layout and the ranking.
package bm25

// Doc is one document.
type Doc struct {
	ID uint64
	// Class is a label from 0 to 7 that a query can select by, such as a kind
	// of entry.
	Class uint8
	// Fields are the texts of the document. They share one index and one
	// length.
	Fields []string
}

// Query is what to search for.
type Query struct {
	Text string
	// Limit is how many hits to return; 0 returns all.
	Limit int
	// Classes selects documents: class c passes when bit c is set. 0 passes
	// all.
	Classes uint8
	// Filter selects documents by ID; nil passes all. It must not use the
	// index.
	Filter func(id uint64) bool
	// Count asks for Result.Total.
	Count bool
	// Explain asks for Result.Explanations.
	Explain bool
	// Texts returns the fields of a document that matches, the most telling
	// first. With it Standard reads the best [RerankLimit] matches, and ranks them
	// by what they show besides BM25; nil: BM25 alone. It must not use the index.
	Texts func(id uint64) []string
	// Correct makes Standard search for other words in the place of those that no
	// document has: see [Correction].
	Correct bool
	// Named are documents that the text is the name of. With Texts they come
	// first if they match.
	Named []uint64
}

// Hit is one document found.
type Hit struct {
	ID    uint64
	Score float64
}

// Result is what a search found.
type Result struct {
	Hits []Hit // score descending, then ID ascending
	// Total is how many documents match and pass the filters, before the
	// limit; filled only with Query.Count.
	Total int
	// Explanations are the score breakdowns of the hits, in their order; filled
	// only with Query.Explain.
	Explanations []Explanation
	// Corrections are what was searched for that the text does not have; with
	// Query.Correct.
	Corrections []Correction
}

// Term is a line of an Explanation: what one term of the query adds.
type Term struct {
	Term string
	TF   int // occurrences in the document
	DF   int // documents that have the term
	IDF  float64
	// LengthNorm is the saturated term frequency, TF damped by k1 and the
	// document's length.
	LengthNorm   float64
	Weight       float64 // 1, or less for a part of a name in the query
	Contribution float64 // IDF × Weight × LengthNorm

	// Of a document that was read:
	Place int     // of the term's first word, counted over all fields from 1; 0 = not read
	Field int     // of Query.Texts, where that is
	Early float64 // what the place adds
	Exact float64 // what it adds that the word is there as the query has it
}

// Near is a line of an Explanation: what two words of the query add that follow
// each other there and stand in one field here.
type Near struct {
	Terms        [2]string `json:"terms"`
	Distance     int       `json:"distance"` // 1 = as near as in the query
	Contribution float64   `json:"contribution"`
}

// Explanation says how a score came about. Adding the contributions of Terms,
// those of Near, Early and then Exact of Terms, and Named, in order, gives the
// score bit for bit.
type Explanation struct {
	ID     uint64
	Score  float64
	Docs   int     // documents with at least one term
	AvgLen float64 // their mean length in terms
	Len    int     // length of this document in terms
	Terms  []Term  // the query's terms that the document has, ascending
	Read   bool    // its texts were read: it is among the best
	Near   []Near  // in the order of the query
	Named  float64 // what it adds that the query is the document's name
}

// Stats describes the size of an index.
type Stats struct {
	Docs     int   // documents, empty ones included
	Terms    int   // distinct terms of the documents
	Postings int   // (term, document) pairs, including those of removed documents not yet dropped
	Segments int   // parts the index is made of
	Bytes    int64 // memory held by the index
}

// Weights returns the terms and what they count for, as snippets are cut by.
func (e *Explanation) Weights() map[string]float64 {
	w := make(map[string]float64, len(e.Terms))
	for _, t := range e.Terms {
		w[t.Term] = t.IDF
	}
	return w
}
