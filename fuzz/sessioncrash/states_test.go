package sessioncrash

import (
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/crashtest"
)

const locks = dir + "/.locks"

// idle reports whether a change is one of the text of a lock file: recovery reads
// the boot in it, and whether it exists.
func idle(c vfs.Change) bool {
	return strings.HasPrefix(c.Name, locks+"/") && (c.Op == "write" || c.Op == "truncate")
}

// imageOf identifies the disk of a crashed machine, without the digits of
// temporary names. Lock files have a separate identity that covers only the
// part that recovery reads.
func imageOf(m *vfs.Mem) (image, states uint64) {
	return crashtest.Image(m, "/home", func(path, _ string) (string, bool) {
		return strings.TrimRight(path, "0123456789"), strings.HasPrefix(path, locks+"/")
	})
}
