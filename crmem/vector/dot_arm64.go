package vector

//go:noescape
func dotNEON(a, b *int8, n int) int32

// dot computes the inner product of the first components, a multiple of 16, and returns
// their number.
func dot(a, b []int8) (sum int32, n int) {
	if n = len(a) &^ 15; n == 0 {
		return 0, 0
	}
	return dotNEON(&a[0], &b[0], n), n
}

func dots(dst []int32, query, rows []int8) (n int) { return 0 }
