package bm25

import "math"

// The constants of the formula.
const (
	k1           = 1.2  // how fast repetitions of a term saturate
	lengthWeight = 0.75 // b of the formula: how much a document's length counts
)

// idf is the weight of a term that df of n documents have.
func idf(n, df int) float64 {
	return math.Log((float64(n)-float64(df)+0.5)/(float64(df)+0.5) + 1)
}

// lenNorm is what a document of dl terms adds to a term frequency to damp it.
// The conversions here and below keep a compiler from fusing a product into a
// sum, so that every machine gives the same bits.
func lenNorm(dl int, avgdl float64) float64 {
	ratio := float64(lengthWeight*float64(dl)) / avgdl
	return float64(k1 * (1 - lengthWeight + ratio))
}

// tfNorm is the saturated frequency of a term that occurs tf times in a document
// with this lenNorm.
func tfNorm(tf int, lenNorm float64) float64 {
	return float64(tf) * (k1 + 1) / (float64(tf) + lenNorm)
}

// contribution is what one term adds to a document's score. A score is the sum
// of its contributions in ascending order of the terms.
func contribution(idf, tfNorm float64) float64 { return float64(idf * tfNorm) }
