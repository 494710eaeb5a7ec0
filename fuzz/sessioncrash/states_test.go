package sessioncrash

import (
	"strings"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
)

const locks = dir + "/.locks"

// idle reports whether a change writes or truncates the text of a lock file. The
// tested outcomes keep or lose such changes together.
func idle(c faultfs.Change) bool {
	return strings.HasPrefix(c.Name, locks+"/") && (c.Op == "write" || c.Op == "truncate")
}

// imageOf returns two hashes of a crashed machine. image covers the disk, without
// the digits of temporary names and the texts of lock files. states covers the
// parts of the lock files that recovery reads.
func imageOf(m *faultfs.Mem) (image, states uint64) {
	return crashtest.Image(m, "/home", func(path, _ string) (string, bool) {
		return strings.TrimRight(path, "0123456789"), strings.HasPrefix(path, locks+"/")
	})
}
