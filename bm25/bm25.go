// Package bm25 implements an in-memory inverted index with BM25 ranking.
//
// The caller gives each document an ID. A search returns exactly the documents
// with the highest scores: score descending, then ID ascending. A score is a
// float64 sum in ascending order of the query's terms. It depends only on the
// set of documents, not on the order of changes or on removed documents.
//
// Package [crabmem/bm25/analysis] turns texts into terms. DESIGN.md gives the
// reasons for the layout and the ranking.
package bm25

// Doc is one document.
type Doc struct {
	ID uint64
	// Class is a label from 0 to 7 that a query can select by, such as a kind
	// of entry.
	Class uint8
	// Fields are the texts of the document. They share one index and one length.
	Fields []string
}

// Query is a search request.
type Query struct {
	Text string
	// Limit is the largest number of hits to return; 0 returns all.
	Limit int
	// Classes selects documents: class c passes if bit c is set. 0 passes all.
	Classes uint8
	// Filter selects documents by ID; nil passes all. It must not use the
	// index.
	Filter func(id uint64) bool
	// Count fills Result.Total.
	Count bool
	// Explain fills Result.Explanations.
	Explain bool
	// Texts returns the fields of a document, the most important first. With it,
	// a Standard index re-ranks the best [RerankLimit] matches by their texts. If
	// nil, BM25 alone ranks. Texts must not use the index.
	Texts func(id uint64) []string
	// Correct makes a Standard index replace words that no document contains: see
	// [Correction].
	Correct bool
	// Named lists documents whose name is the text. With Texts they rank first if
	// they match.
	Named []uint64
	// Context relates messages of conversations. Only searches that re-rank use it.
	Context *Context
	// Factor returns a factor of the score of a match, at least 1 and at most MaxFactor;
	// nil multiplies nothing. It must not use the index.
	Factor    func(id uint64) float64
	MaxFactor float64
	// Ties compares documents of equal scores, of which the first is the better one; nil
	// compares IDs. It must not use the index.
	Ties func(a, b uint64) int
}

// Hit is a document that matches.
type Hit struct {
	ID    uint64
	Score float64
}

// Result is the result of a search.
type Result struct {
	Hits []Hit // score descending, then ID ascending
	// Total is the number of documents that match and pass the filters, before the
	// limit. It is set only with Query.Count.
	Total int
	// Explanations are the score breakdowns of Hits, in the same order. They are
	// set only with Query.Explain.
	Explanations []Explanation
	// Corrections are the spelling corrections of the query, with Query.Correct.
	Corrections []Correction
}

// Term is the contribution of one query term to a score.
type Term struct {
	Term string
	TF   int // occurrences in the document
	DF   int // documents that contain the term
	IDF  float64
	// LengthNorm is the saturated term frequency: TF damped by k1 and the length
	// of the document.
	LengthNorm   float64
	Weight       float64 // 1; less for a part of a name; in a long query, times the repetitions and IDF^(1/4)
	Contribution float64 // IDF × Weight × LengthNorm

	// Of a re-ranked document:
	Place int     // position of the term's first word over all fields, from 1; 0: not read
	Field int     // field of that word in the result of Query.Texts
	Early float64 // bonus for the position
	Exact float64 // bonus for a word spelled as in the query
}

// Near is the contribution of two adjacent query words that one field of the
// document contains.
type Near struct {
	Terms        [2]string `json:"terms"`
	Distance     int       `json:"distance"` // 1: as near as in the query
	Contribution float64   `json:"contribution"`
}

// Explanation is the breakdown of a score. The sum of the contributions of Terms,
// the contributions of Near, Early of Terms, Exact of Terms, Named, and the
// contributions of Boosts, in this order, equals the score bit for bit. If the document
// is a message of a [Context], the score is this sum times Prior, plus Group. If Factor is
// set, it multiplies the score.
type Explanation struct {
	ID     uint64
	Score  float64
	Docs   int     // documents with at least one term
	AvgLen float64 // their mean length in terms
	Pivot  float64 // the length that is not damped: smaller than AvgLen if lengths are uneven
	Len    int     // length of this document in terms
	Terms  []Term  // the query's terms that the document contains, ascending
	Read   bool    // the document was a candidate for re-ranking
	// Damping is the factor of the bonuses of re-ranking: smaller than 1 for a long
	// document if lengths are uneven. It is 0 if the document was not read.
	Damping float64
	Near    []Near  // in the order of the query
	Named   float64 // bonus if the query is the document's name

	Boosts []Boost // by neighbors of a message
	Prior  float64 // factor of a message; 0: not a message
	Group  float64 // evidence of the conversation of a message

	Factor float64 // of Query.Factor; 0: not applied
}

// Stats describes the size of an index. For an opened index, Postings, Segments, and
// Bytes count what it read, and Terms includes the terms of removed documents.
type Stats struct {
	Docs     int   // documents, empty ones included
	Terms    int   // distinct terms of the documents
	Postings int   // (term, document) pairs, including removed documents until the next merge
	Segments int   // segments, including a tail with documents
	Bytes    int64 // memory held by the index
}
