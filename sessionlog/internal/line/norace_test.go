//go:build !race

package line

const (
	codecRounds = 5_000
	hugeFiles   = true
)
