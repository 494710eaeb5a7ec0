package crash

import (
	"encoding/binary"
	"hash/maphash"
	"io/fs"
	"math/rand/v2"
	"strings"

	"crabmem/crmem/vfs"
)

const (
	dir = "/home"
	db  = dir + "/memory.db"
	wal = db + "-wal"
)

// mutates says whether a call changes what a crash may leave.
func mutates(op string) bool {
	switch op {
	case "create", "write", "truncate", "sync", "datasync", "syncdir", "rename", "remove", "mkdir", "lock":
		return true
	}
	return false
}

// ends as the limit of fates means: only none and all.
const ends = -1

// fates yields what may become of the unsynced changes: none, all, all subsets
// of up to limit changes and otherwise each alone, each missing and 64 random
// ones; and for each write each of its parts, with the rest there, with only
// the names there, and alone. What the lock file says matters to nobody after
// a crash; its fate goes along with the others' so that both cases occur.
func fates(changes []vfs.Change, limit int, yield func([]vfs.Fate)) {
	var at []int // those that matter
	f := make([]vfs.Fate, len(changes))
	for i, c := range changes {
		if !strings.HasSuffix(c.Name, "-lock") {
			at = append(at, i)
		}
	}
	lock := func(fate vfs.Fate) {
		for i, c := range changes {
			if strings.HasSuffix(c.Name, "-lock") {
				f[i] = fate
			}
		}
	}
	set := func(kept func(i int) bool) {
		for _, i := range at {
			f[i] = vfs.Gone
			if kept(i) {
				f[i] = vfs.Whole
			}
		}
	}
	all := func(int) bool { return true }
	none := func(int) bool { return false }
	names := func(i int) bool { return changes[i].Op != "write" && changes[i].Op != "truncate" }

	set(none)
	yield(f)
	lock(vfs.Whole)
	set(all)
	yield(f)
	if limit == ends {
		return
	}
	if len(at) <= limit {
		for bits := range uint64(1) << len(at) {
			for k, i := range at {
				f[i] = vfs.Fate(bits >> k & 1)
			}
			lock(vfs.Fate(bits & 1))
			yield(f)
		}
	} else {
		for _, i := range at {
			set(func(j int) bool { return j != i })
			yield(f)
			lock(vfs.Gone)
			set(func(j int) bool { return j == i })
			yield(f)
			lock(vfs.Whole)
		}
		r := rand.New(rand.NewPCG(1, uint64(len(at))))
		for range 64 {
			set(func(int) bool { return r.IntN(2) == 0 })
			yield(f)
		}
	}
	for _, i := range at {
		if changes[i].Op != "write" {
			continue
		}
		parts := []vfs.Fate{vfs.Zeroed, vfs.Garbage}
		for k := range changes[i].Cuts {
			parts = append(parts, vfs.Cut(k+1))
		}
		for _, kept := range []func(int) bool{all, names, none} {
			set(kept)
			for _, part := range parts {
				f[i] = part
				yield(f)
			}
		}
	}
}

func pick(r *rand.Rand, changes []vfs.Change, percent int) []vfs.Fate {
	f := make([]vfs.Fate, len(changes))
	for i, c := range changes {
		if r.IntN(100) >= percent {
			continue
		}
		f[i] = vfs.Whole
		if c.Op == "write" && r.IntN(4) == 0 {
			f[i] = vfs.Zeroed + vfs.Fate(r.IntN(2))
			if c.Cuts > 0 && r.IntN(2) == 0 {
				f[i] = vfs.Cut(1 + r.IntN(c.Cuts))
			}
		}
	}
	return f
}

// imageOf identifies what a crashed machine's disk holds. Left out are the
// lock file, the digits of temporary names, and of a log what follows from its
// random salt, the salt and the checksums, so that two images that differ in
// nothing else count as one.
func imageOf(m *vfs.Mem) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	list, err := m.ReadDir(dir)
	if err != nil {
		return 1 // not even the directory
	}
	for _, e := range list {
		name := strings.TrimRight(e.Name(), "0123456789")
		if strings.HasSuffix(name, "-lock") {
			continue
		}
		b, err := vfs.ReadFile(m, dir+"/"+e.Name(), 1<<30)
		if err != nil {
			panic(err)
		}
		if strings.Contains(name, "-wal.torn-") {
			maskFrames(b)
		} else if strings.HasSuffix(name, "-wal") && len(b) >= 48 {
			clear(b[8:16])
			clear(b[44:48])
			maskFrames(b[48:])
		}
		maphash.WriteComparable(&h, [2]int{len(name), len(b)})
		h.WriteString(name)
		h.Write(b)
	}
	return h.Sum64()
}

func maskFrames(b []byte) {
	for len(b) >= 28 {
		n := uint64(binary.LittleEndian.Uint32(b[4:]))
		clear(b[24:min(32, len(b))])
		b = b[min(32+n, uint64(len(b))):]
	}
}

func read(m *vfs.Mem, name string) []byte {
	b, err := vfs.ReadFile(m, name, 1<<30)
	if err != nil {
		return nil
	}
	return b
}

// strays returns names that should not be beside an open store.
func strays(m *vfs.Mem) (names []string) {
	list, err := m.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range list {
		switch rest, ok := strings.CutPrefix(e.Name(), "memory.db"); {
		case ok && (rest == "" || rest == "-wal" || rest == "-lock" || rest == "-reserve"):
		case ok && strings.HasPrefix(rest, "-wal.torn-"):
		default:
			names = append(names, e.Name())
		}
	}
	return names
}

func torn(m *vfs.Mem) map[string]string {
	kept := map[string]string{}
	list, _ := m.ReadDir(dir)
	for _, e := range list {
		if e.Type() == fs.FileMode(0) && strings.Contains(e.Name(), "-wal.torn-") {
			kept[e.Name()] = string(read(m, dir+"/"+e.Name()))
		}
	}
	return kept
}
