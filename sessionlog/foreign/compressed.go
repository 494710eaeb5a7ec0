package foreign

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"strings"

	"crabmem/crmem/vfs"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory of a decoder. Programs that compress in the usual way
// need 8 MiB or less.
const maxWindow = 128 << 20

// compressions are the formats that import reads, with the name extension and the first
// bytes of a file.
var compressions = []struct {
	name, ext, magic string
	open             func(io.Reader) (io.ReadCloser, error)
}{
	{"zstd", ".zst", "\x28\xb5\x2f\xfd", openZstd},
	{"gzip", ".gz", "\x1f\x8b", func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	{"bzip2", ".bz2", "BZh", func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }},
}

// otherCompressions are the name extensions of formats that import does not read.
var otherCompressions = []string{".xz", ".lzma", ".lz4", ".br", ".zip", ".7z", ".Z"}

// openZstd returns a reader that decodes in the caller's goroutine.
func openZstd(r io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// isTranscriptName reports whether a name has the form of a transcript's, which may be
// compressed.
func isTranscriptName(name string) bool {
	ext := path.Ext(name)
	for i := range compressions {
		if ext == compressions[i].ext {
			ext = path.Ext(strings.TrimSuffix(name, ext))
			break
		}
	}
	return ext == ".jsonl"
}

// Compression returns the name of the format in which a file that begins with these
// bytes is compressed, or "".
func Compression(head []byte) string {
	i := compressionOf(head)
	if i < 0 {
		return ""
	}
	return compressions[i].name
}

func compressionOf(head []byte) int {
	for i := range compressions {
		if bytes.HasPrefix(head, []byte(compressions[i].magic)) {
			return i
		}
	}
	return -1
}

// plainFile reads a file that is not compressed.
type plainFile struct{ io.Reader }

func (plainFile) Close() error { return nil }

// uncompressed returns a reader of a file's content. The caller closes the file, too.
func uncompressed(f vfs.File) (io.ReadCloser, error) {
	head := make([]byte, 4)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	i := compressionOf(head[:n])
	if i < 0 {
		return plainFile{f}, nil
	}
	r, err := compressions[i].open(f)
	if err != nil {
		err = fmt.Errorf("decompress %s: %w", compressions[i].name, err)
	}
	return r, err
}
