package crashtest

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// Paths returns the paths of the files and directories below a directory. Those of
// directories end in a slash.
func Paths(m *faultfs.Mem, dir string) (paths []string, err error) {
	list, err := m.ReadDir(dir)
	for _, e := range list {
		path := dir + "/" + e.Name()
		if !e.IsDir() {
			paths = append(paths, path)
			continue
		}
		more, err := Paths(m, path)
		if err != nil {
			return nil, err
		}
		paths = append(append(paths, path+"/"), more...)
	}
	return paths, err
}

// StoreImage returns a hash of the files of stores below a directory, without the file
// omit. The hash does not cover lock files and the digits of temporary names. It covers
// neither random values nor the checksums that depend on them.
func StoreImage(m *faultfs.Mem, dir, omit string) uint64 {
	var h maphash.Hash
	h.SetSeed(imageSeed)
	paths, err := Paths(m, dir)
	if err != nil {
		return 1 // the directory does not exist
	}
	buf := images.Get().(*[]byte)
	defer images.Put(buf)
	for _, path := range paths {
		name := strings.TrimRight(path[len(dir)+1:], "0123456789")
		if strings.HasSuffix(name, "-lock") || name == omit {
			continue
		}
		if strings.HasSuffix(path, "/") {
			maphash.WriteComparable(&h, maphash.String(imageSeed, name))
			continue
		}
		b, err := vfs.ReadFileOver(*buf, m, path, 1<<30)
		if err != nil {
			panic(err)
		}
		*buf = b
		if plain, ok := strings.CutSuffix(name, ".log.zst"); ok {
			b, name = Decompress(b), plain+".z.log"
		}
		maskRandom(name, b)
		maphash.WriteComparable(&h, [2]uint64{maphash.String(imageSeed, name), maphash.Bytes(imageSeed, b)})
	}
	return h.Sum64()
}

// Decompress returns the content of a zstd file, up to the first error.
func Decompress(z []byte) []byte {
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

// images contains buffers for StoreImage, which reads millions of files.
var images = sync.Pool{New: func() any { return new([]byte) }}

// maskRandom clears the random values of a file, and the checksums of them.
func maskRandom(name string, b []byte) {
	switch {
	case strings.Contains(name, "-wal.torn-"):
		maskFrames(b)
	case strings.HasSuffix(name, ".db-id"), strings.HasSuffix(name, ".idx"):
		clear(b)
	case strings.HasSuffix(name, ".db-purge"):
		clear(b[:min(55, len(b))]) // the identity
	case strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, "-wal.held") || strings.HasSuffix(name, ".log"):
		if len(b) >= 48 {
			clear(b[8:16])
			clear(b[44:min(len(b), 112)])
			maskFrames(b[min(len(b), 112):])
		}
	}
}

// maskFrames clears the checksums of the frames in b, which depend on the salt.
func maskFrames(b []byte) {
	for len(b) >= 28 {
		n := uint64(binary.LittleEndian.Uint32(b[4:]))
		clear(b[24:min(32, len(b))])
		b = b[min(32+n, uint64(len(b))):]
	}
}
