package crash

import (
	"strings"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
)

const (
	dir = "/home"
	db  = dir + "/memory.db"
	wal = db + "-wal"

	tornSuffix = "-wal.torn-"
)

// idle reports whether a change affects only the lock file. The tested outcomes
// keep or lose such changes together.
func idle(c faultfs.Change) bool { return strings.HasSuffix(c.Name, "-lock") }

// imageOf returns a hash of the disk of a crashed machine. See crashtest.StoreImage.
func imageOf(m *faultfs.Mem) uint64 { return crashtest.StoreImage(m, dir, "") }

var read = crashtest.Read

// strays returns the unexpected names in the directory of an open store.
func strays(m *faultfs.Mem) (names []string) {
	list, err := m.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range list {
		switch rest, ok := strings.CutPrefix(e.Name(), "memory.db"); {
		case ok && (rest == "" || rest == "-wal" || rest == "-lock" || rest == "-reserve" || rest == "-id" || rest == "-wal.held" || rest == "-history"):
		case ok && (strings.HasPrefix(rest, "-wal.torn-") || rest == "-derived-lock" || rest == "-usage" || strings.HasPrefix(rest, "-index-")):
		default:
			names = append(names, e.Name())
		}
	}
	return names
}

// torn returns the contents of the quarantine files, by name.
func torn(m *faultfs.Mem) map[string]string {
	return crashtest.Files(m, dir, func(name string) bool { return strings.Contains(name, "-wal.torn-") })
}
