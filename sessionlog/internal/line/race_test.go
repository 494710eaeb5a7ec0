//go:build race

package line

// rounds of the random tests, and whether files of gigabytes are read: the
// race detector looks at the code, not at the cases.
const (
	codecRounds = 2_500
	hugeFiles   = false
)
