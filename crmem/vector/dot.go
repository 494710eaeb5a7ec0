// Package vector contains vectors of 8-bit integers with one scale each, finds those that
// are most similar to a query, and reads and writes them.
package vector

import "math"

// Quantize stores v / scale, rounded, in dst and returns the scale: the largest component
// becomes 127 or -127.
func Quantize(dst []int8, v []float32) (scale float32) {
	most := float32(0)
	for _, x := range v {
		most = max(most, float32(math.Abs(float64(x))))
	}
	if most < 1e-30 { // the scale would lose precision
		clear(dst)
		return 0
	}
	scale = most / 127
	for i, x := range v {
		dst[i] = int8(math.RoundToEven(float64(x) / float64(scale)))
	}
	return scale
}

// Dot returns the inner product of two vectors with the same number of components, at most
// MaxDim: it is below 2^31. All processors compute the same number.
func Dot(a, b []int8) int32 {
	sum, n := dot(a, b[:len(a)])
	for i := n; i < len(a); i++ {
		sum += int32(a[i]) * int32(b[i])
	}
	return sum
}

// Dots stores the inner products of a query with len(dst) vectors that follow each other in
// rows.
func Dots(dst []int32, query, rows []int8) {
	rows = rows[:len(dst)*len(query)]
	for i := dots(dst, query, rows); i < len(dst); i++ {
		dst[i] = Dot(query, rows[i*len(query):(i+1)*len(query)])
	}
}
