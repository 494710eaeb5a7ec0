//go:build !unix

package measure

import "time"

var start = time.Now()

// CPU returns the time since the start of the process: what this system offers
// in the place of CPU time.
func CPU() time.Duration { return time.Since(start) }
