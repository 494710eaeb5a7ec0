package crashtest

import (
	"cmp"
	"hash/maphash"
	"io/fs"
	"os"
	"strings"
	"sync"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// NoReserve is a hook that refuses to create the reserve file of a store. The file
// would add 64 unsynced changes that recovery does not read.
func NoReserve(c faultfs.Call) error {
	if c.Op == "create" && strings.HasSuffix(c.Name, "-reserve") {
		return os.ErrPermission
	}
	return nil
}

// Read returns the content of a file, or nil if it cannot be read.
func Read(m *faultfs.Mem, name string) []byte {
	b, err := vfs.ReadFile(m, name, 1<<30)
	if err != nil {
		return nil
	}
	return b
}

// Files returns the contents of the regular files in dir whose names match, by
// name.
func Files(m *faultfs.Mem, dir string, match func(name string) bool) map[string]string {
	files := map[string]string{}
	list, _ := m.ReadDir(dir)
	for _, e := range list {
		if e.Type().IsRegular() && match(e.Name()) {
			files[e.Name()] = string(Read(m, dir+"/"+e.Name()))
		}
	}
	return files
}

var imageSeed = maphash.MakeSeed()

// Image returns two hashes of the files below dir. disk covers names and contents,
// without the contents of lock files. locks covers the parts of the lock files
// that recovery reads. id returns the name of a path for the hashes, and whether
// the path is a lock file. If the name is "", disk does not cover it.
func Image(m *faultfs.Mem, dir string, id func(path, name string) (shown string, lock bool)) (disk, locks uint64) {
	var h, l maphash.Hash
	h.SetSeed(imageSeed)
	l.SetSeed(imageSeed)
	var visit func(dir string)
	visit = func(dir string) {
		list, _ := m.ReadDir(dir)
		for _, e := range list {
			path := dir + "/" + e.Name()
			name, lock := id(path, e.Name())
			if name == "" && !lock && e.Type() != fs.ModeDir {
				continue
			}
			if name != "" {
				maphash.WriteComparable(&h, name)
			}
			switch {
			case e.Type() == fs.ModeDir:
				visit(path)
				maphash.WriteComparable(&h, "/")
			case lock:
				held := vfs.ParseLockHolder(string(Read(m, path)))
				maphash.WriteComparable(&l, cmp.Or(name, path))
				maphash.WriteComparable(&l, held.Clean)
				maphash.WriteComparable(&l, held.Torn)
				maphash.WriteComparable(&l, held.Boot)
			default:
				maphash.WriteComparable(&h, maphash.Bytes(imageSeed, Read(m, path)))
			}
		}
	}
	visit(dir)
	return h.Sum64(), l.Sum64()
}

// Memo maps keys to values. The zero Memo is empty.
type Memo[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]V
}

// Get returns the value of a key.
func (s *Memo[K, V]) Get(key K) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[key]
	return v, ok
}

// Put sets the value of a key. It reports whether the key is new.
func (s *Memo[K, V]) Put(key K, v V) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.m[key]
	if s.m == nil {
		s.m = map[K]V{}
	}
	s.m[key] = v
	return !ok
}

// Keys returns the map of all keys and values. No Put may run concurrently.
func (s *Memo[K, V]) Keys() map[K]V { return s.m }

// Len returns the number of keys. No Put may run concurrently.
func (s *Memo[K, V]) Len() int { return len(s.Keys()) }
