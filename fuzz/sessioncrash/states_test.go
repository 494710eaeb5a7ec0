package sessioncrash

import (
	"hash/maphash"
	"io/fs"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/fate"
)

const locks = dir + "/.locks"

// fates yields what may become of the unsynced changes. Which of its texts a
// lock file has after a crash is told by its boot; that it is there matters.
func fates(changes []vfs.Change, limit int, yield func([]vfs.Fate)) {
	fate.Each(changes, limit, func(c vfs.Change) bool {
		return strings.HasPrefix(c.Name, locks+"/") && (c.Op == "write" || c.Op == "truncate")
	}, yield)
}

// imageOf identifies what a crashed machine's disk holds: all of it but the
// digits of temporary names and the texts of lock files, of which it identifies
// the states apart.
func imageOf(m *vfs.Mem) (image, states uint64) {
	var h, l maphash.Hash
	h.SetSeed(sumSeed)
	l.SetSeed(sumSeed)
	var visit func(path string)
	visit = func(path string) {
		list, err := m.ReadDir(path)
		if err != nil {
			return
		}
		for _, e := range list {
			name := path + "/" + strings.TrimRight(e.Name(), "0123456789")
			maphash.WriteComparable(&h, name)
			if e.Type() == fs.ModeDir {
				visit(name)
				maphash.WriteComparable(&h, "/")
				continue
			}
			text := read(m, path+"/"+e.Name())
			if path == locks {
				maphash.WriteComparable(&l, name)
				held := vfs.ParseHolder(text)
				maphash.WriteComparable(&l, held.Clean)
				maphash.WriteComparable(&l, held.Torn)
				maphash.WriteComparable(&l, held.Boot)
				continue
			}
			maphash.WriteComparable(&h, text)
		}
	}
	visit("/home")
	return h.Sum64(), l.Sum64()
}
