package vector

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

//go:noescape
func dotAVX2(a, b *int8, n int) int32

//go:noescape
func dotsAVX2(dst *int32, query, rows *int8, n, dim int)

// dot computes the inner product of the first components, a multiple of lanes, and returns
// their number.
func dot(a, b []int8) (sum int32, n int) {
	if n = len(a) &^ 15; n == 0 || !hasAVX2 {
		return 0, 0
	}
	return dotAVX2(&a[0], &b[0], n), n
}

// dots computes the inner products with the first rows, and returns their number.
func dots(dst []int32, query, rows []int8) (n int) {
	if n = len(dst) &^ 3; n == 0 || len(query) == 0 || len(query)%16 != 0 || !hasAVX2 {
		return 0
	}
	dotsAVX2(&dst[0], &query[0], &rows[0], n, len(query))
	return n
}
