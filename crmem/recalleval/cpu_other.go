//go:build !unix

package recalleval

import "time"

var start = time.Now()

// CPUTime returns the time since the start of the process: this system does not
// report CPU time.
func CPUTime() time.Duration { return time.Since(start) }
