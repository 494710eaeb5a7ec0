// Package lazyregexp compiles regular expressions at their first use, so that the start of
// a program that needs none of them costs nothing.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function whose first call compiles expr. An invalid expr panics then.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
