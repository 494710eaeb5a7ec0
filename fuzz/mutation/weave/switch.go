package weave

// switchText is the file that chooses the mutant of a woven package. Its verbs
// are the package name, EnvActive, EnvHits, and FileSuffix.
const switchText = `package %s

import (
	mutantOS "os"
	mutantStrconv "strconv"
	mutantStrings "strings"
	mutantSyscall "syscall"
)

var mutantActive, mutantHits = mutantStart()

func mutantStart() (int, []byte) {
	id, hits := mutantOS.Getenv(%q), mutantOS.Getenv(%q)
	if id == "" {
		self, _ := mutantOS.Executable()
		text, _ := mutantOS.ReadFile(self + %q)
		id, hits, _ = mutantStrings.Cut(string(text), " ")
	}
	active, _ := mutantStrconv.Atoi(id)
	f, err := mutantOS.OpenFile(hits, mutantOS.O_RDWR, 0)
	if err != nil {
		return active, nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return active, nil
	}
	seen, _ := mutantSyscall.Mmap(int(f.Fd()), 0, int(info.Size()), mutantSyscall.PROT_READ|mutantSyscall.PROT_WRITE, mutantSyscall.MAP_SHARED)
	return active, seen
}

func mutantOn(id int) bool {
	if mutantHits != nil {
		mutantHits[id] = 1
	}
	return mutantActive == id
}

func mutantOff(id int) bool { return !mutantOn(id) }

func mutantPick[T any](id int, a, b T) T {
	if mutantOn(id) {
		return b
	}
	return a
}

type mutantNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutantSubtract[T mutantNumber](id int, a, b T) T {
	if mutantOn(id) {
		return a - b
	}
	return a + b
}

func mutantAdd[T mutantNumber](id int, a, b T) T {
	if mutantOn(id) {
		return a + b
	}
	return a - b
}
`
