// Package lazyregexp compiles regular expressions at their first use, because most starts of
// the program use only a few of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function whose first call compiles expr. An invalid expr panics then.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
