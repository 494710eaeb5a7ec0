//go:build !amd64 && !arm64

package vector

func dot(a, b []int8) (sum int32, n int)           { return 0, 0 }
func dots(dst []int32, query, rows []int8) (n int) { return 0 }
