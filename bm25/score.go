package bm25

import "math"

// Constants of the formula.
const (
	k1           = 1.2  // k1 of the formula: how fast repetitions of a term saturate
	lengthWeight = 0.75 // b of the formula: how much a document's length counts
)

// idf returns the weight of a term that df of n documents contain.
func idf(n, df int) float64 {
	return math.Log((float64(n)-float64(df)+0.5)/(float64(df)+0.5) + 1)
}

// lenNorm returns the summand that damps term frequencies of a document of dl
// terms. The conversions here and below keep the compiler from fusing a product
// into a sum, so that every machine computes the same bits.
func lenNorm(dl int, avgdl float64) float64 {
	ratio := float64(lengthWeight*float64(dl)) / avgdl
	return float64(k1 * (1 - lengthWeight + ratio))
}

// tfNorm returns the saturated frequency of a term that occurs tf times in a
// document with this lenNorm.
func tfNorm(tf int, lenNorm float64) float64 {
	return float64(tf) * (k1 + 1) / (float64(tf) + lenNorm)
}

// contribution returns the share of one term in a document's score. A score is the
// sum of the contributions in ascending order of the terms.
func contribution(idf, tfNorm float64) float64 { return float64(idf * tfNorm) }
