//go:build !race

package sessionlog

const (
	codecRounds = 5_000
	hugeFiles   = true
)
