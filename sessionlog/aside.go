package sessionlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// setAside copies n bytes from an offset to a file with an unused name, in a
// subfolder of the sessions, and returns its path. If a file already contains
// the same bytes, setAside replaces it instead of creating another.
func (d *Dir) setAside(folder, name string, r io.ReaderAt, from, n int64) (string, error) {
	if err := d.makeFolder(d.folder(folder)); err != nil {
		return "", err
	}
	for i := 0; ; i++ {
		path := filepath.Join(d.folder(folder), name+nameExt)
		if i > 0 {
			path = filepath.Join(d.folder(folder), fmt.Sprintf("%s.%d%s", name, i, nameExt))
		}
		_, err := d.fs.Lstat(path)
		free := errors.Is(err, fs.ErrNotExist)
		if err == nil {
			// An earlier attempt copied the same bytes before a crash. Its name
			// may not be durable, so write the file again.
			free, err = d.holds(path, io.NewSectionReader(r, from, n))
		}
		if free {
			return path, vfs.Replace(d.fs, path, 0o600, func(w io.Writer) error {
				_, err := io.Copy(w, io.NewSectionReader(r, from, n))
				return err
			})
		}
		if err != nil {
			return "", err
		}
	}
}

// holds reports whether a file is regular and contains exactly these bytes.
func (d *Dir) holds(path string, want *io.SectionReader) (bool, error) {
	f, err := d.fs.Open(path)
	if errors.Is(err, vfs.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() != want.Size() {
		return false, err
	}
	a, err := checksum(f, want.Size())
	if err != nil {
		return false, err
	}
	b, err := checksum(want, want.Size())
	return a == b, err
}

// checksum returns the CRC-32C of the first n bytes.
func checksum(r io.ReaderAt, n int64) (uint32, error) {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	_, err := io.Copy(sum, io.NewSectionReader(r, 0, n))
	return sum.Sum32(), err
}
