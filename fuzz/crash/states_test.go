package crash

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"crabmem/crmem/vfs"
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

// imageOf returns a hash of the disk of a crashed machine. The hash does not cover
// the lock file and the digits of temporary names. It covers neither random values
// nor the checksums that depend on them.
func imageOf(m *faultfs.Mem) uint64 { return imageWithout(m, "") }

// filesOf returns the paths of the files in a directory and its directories.
func filesOf(m *faultfs.Mem, dir string) (files []string, err error) {
	list, err := m.ReadDir(dir)
	for _, e := range list {
		path := dir + "/" + e.Name()
		if !e.IsDir() {
			files = append(files, path)
			continue
		}
		more, err := filesOf(m, path)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, err
}

// imageWithout returns imageOf without one file.
func imageWithout(m *faultfs.Mem, omit string) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	files, err := filesOf(m, dir)
	if err != nil {
		return 1 // the directory does not exist
	}
	buf := images.Get().(*[]byte)
	defer images.Put(buf)
	for _, path := range files {
		name := strings.TrimRight(path[len(dir)+1:], "0123456789")
		if strings.HasSuffix(name, "-lock") || name == omit {
			continue
		}
		b, err := vfs.ReadFileOver(*buf, m, path, 1<<30)
		if err != nil {
			panic(err)
		}
		*buf = b
		if strings.HasSuffix(name, ".log.zst") {
			b, name = decompress(b), strings.TrimSuffix(name, ".zst")+"z"
		}
		if strings.Contains(name, "-wal.torn-") {
			maskFrames(b)
		} else if name == "memory.db-id" || strings.HasSuffix(name, ".idx") {
			clear(b)
		} else if name == "memory.db-purge" {
			clear(b[:min(55, len(b))]) // the identity
		} else if (strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, "-wal.held") || strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".logz")) && len(b) >= 48 {
			clear(b[8:16])
			clear(b[44:min(len(b), 112)])
			maskFrames(b[min(len(b), 112):])
		} else if strings.HasSuffix(name, ".idx") {
			maskIndex(b)
		}
		maphash.WriteComparable(&h, [2]uint64{maphash.String(printSeed, name), maphash.Bytes(printSeed, b)})
	}
	return h.Sum64()
}

// decompress returns the content of a zstd file, up to the first error.
func decompress(z []byte) []byte {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	b, _ := d.DecodeAll(z, nil)
	return b
}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		panic(err)
	}
	return d
}}

// images contains buffers for imageWithout, which reads millions of files.
var images = sync.Pool{New: func() any { return new([]byte) }}

// maskFrames clears the checksums of the frames in b, which depend on the salt.
func maskFrames(b []byte) {
	for len(b) >= 28 {
		n := uint64(binary.LittleEndian.Uint32(b[4:]))
		clear(b[24:min(32, len(b))])
		b = b[min(32+n, uint64(len(b))):]
	}
}

// maskIndex clears the salt and the checksums of a change index.
func maskIndex(b []byte) {
	clear(b[min(24, len(b)):min(40, len(b))])
	for end := 4096; end <= len(b); end += 4096 {
		clear(b[end-4 : end])
	}
}

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
		case ok && strings.HasPrefix(rest, "-wal.torn-"):
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
