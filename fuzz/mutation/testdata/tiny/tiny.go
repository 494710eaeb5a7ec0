// Package tiny has mutants with fixed results.
package tiny

import (
	"errors"
	"time"
)

// Max returns the larger number. Its tests cannot detect a moved bound.
func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// Half returns an error for an odd number. No test uses an odd number.
func Half(n int) (int, error) {
	if n&1 != 0 {
		return 0, errors.New("odd")
	}
	return n / 2, nil
}

// Drain empties a list. Without the second assignment it loops without end. It waits, so
// that the endless loop uses little CPU time.
func Drain(list []string) (last string) {
	for len(list) > 0 {
		last = list[0]
		list = list[1:]
		time.Sleep(time.Millisecond)
	}
	return last
}

// Double is tested by a copy of the test binary without an environment.
func Double(n int) int { return n + n }

// Unused has no test.
func Unused(n int) int { return n + 1 }
