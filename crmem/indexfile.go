package crmem

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sort"
	"sync"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/blocks"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// errIndexFile is returned if an index file or the snapshot that it describes cannot
// be read as expected. The caller then reads the complete store.
var errIndexFile = errors.New("index file")

// isOfIndexFile reports whether an index file may have caused an error of a replay.
// Without the file, the error of a corrupt log is the same.
func isOfIndexFile(err error) bool {
	return errors.Is(err, errIndexFile) || errors.Is(err, ErrFormat)
}

// indexFile is an open index file (FORMAT.md, "Index file"). It finds records in the
// snapshot without reading all of it. It is safe for concurrent use.
type indexFile struct {
	*format.IndexFooter
	f      vfs.File
	blocks *blocks.Reader

	mu       sync.Mutex
	snapshot vfs.File // nil if the records are not read through this file
	// confirmed, if set, describes the snapshot, whose digest was computed when the file
	// was opened.
	confirmed fs.FileInfo
	records   map[uint64]format.Record
	bytes     int   // of records
	err       error // first
}

// maxFound limits the bytes of the records that an index file keeps.
const maxFound = 16 << 20

// openIndexFile opens the index file of a store for an analyzer.
func openIndexFile(fsys vfs.FS, path string, a analysis.Analyzer) (*indexFile, error) {
	f, fi, err := vfs.OpenDerived(fsys, path+indexSuffix(a))
	if err != nil {
		return nil, err
	}
	x, err := readIndexFile(f, fi.Size())
	if err == nil && x.Analyzer != uint32(a) {
		err = fmt.Errorf("%s is of another analyzer", path+indexSuffix(a))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return x, nil
}

// readIndexFile reads the footer and the checksums of an index file.
func readIndexFile(f vfs.File, size int64) (*indexFile, error) {
	if size < format.IndexFooterSize {
		return nil, fmt.Errorf("%d bytes: too short for an index file", size)
	}
	b := make([]byte, format.IndexFooterSize)
	if _, err := f.ReadAt(b, size-int64(len(b))); err != nil {
		return nil, err
	}
	footer, err := format.ReadIndexFooter(b, size)
	if err != nil {
		return nil, err
	}
	sums := make([]byte, blocks.NumSums(int64(footer.Data)))
	if _, err := f.ReadAt(sums, int64(footer.Data)); err != nil {
		return nil, err
	}
	if crc32.Checksum(sums, format.Castagnoli()) != footer.SumsCRC {
		return nil, errors.New("checksums of the blocks: checksum mismatch")
	}
	return &indexFile{IndexFooter: footer, f: f, blocks: blocks.NewReader(f, int64(footer.Data), sums)}, nil
}

// hashedFor is how much older than the hash the last change of a snapshot must be, so
// that a later change has another time.
const hashedFor = 2 * time.Second

// describes reports whether the digest is that of the snapshot with a FileInfo, without
// reading it.
func (x *indexFile) describes(fi fs.FileInfo) bool {
	id, changed := vfs.Identify(fi), vfs.ChangeTime(fi)
	return x.Digest.Len == uint64(fi.Size()) && x.Dev == id.Dev && x.Ino == id.Ino && id.Ino != 0 &&
		x.Modified == fi.ModTime().UnixNano() && !changed.IsZero() && x.Changed == changed.UnixNano() &&
		x.Hashed-x.Changed >= int64(hashedFor)
}

// section returns a section.
func (x *indexFile) section(i int) *io.SectionReader {
	s := x.Sections[i]
	return io.NewSectionReader(x.blocks, int64(s.Off), int64(s.Len))
}

// fail keeps the first error.
func (x *indexFile) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed(err)
}

func (x *indexFile) failed(err error) {
	if x.err == nil {
		x.err = fmt.Errorf("%w: %w", errIndexFile, err)
	}
}

// broken returns the first error. After an error, missing records may exist.
func (x *indexFile) broken() error {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// record returns the record of an ID, or "".
func (x *indexFile) record(id uint64) format.Record {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r, ok := x.records[id]; ok || x.err != nil {
		return r
	}
	r, err := x.readID(id)
	if err != nil {
		x.failed(err)
		return ""
	}
	if x.bytes += len(r); x.records == nil || x.bytes > maxFound {
		x.records, x.bytes = make(map[uint64]format.Record), len(r)
	}
	x.records[id] = r
	return r
}

// readID reads the record of an ID. The caller holds mu.
func (x *indexFile) readID(id uint64) (format.Record, error) {
	n := int(x.Entries())
	var p format.IndexPlace
	var err error
	at := sort.Search(n, func(i int) bool {
		if err == nil {
			p, err = x.place(i)
		}
		return err != nil || p.ID >= id
	})
	if err != nil || at == n {
		return "", err
	}
	if p, err = x.place(at); err != nil || p.ID != id {
		return "", err
	}
	return x.read(p)
}

func (x *indexFile) place(i int) (format.IndexPlace, error) {
	var b [format.IndexEntrySize]byte
	_, err := x.section(format.IndexEntries).ReadAt(b[:], int64(i)*format.IndexEntrySize)
	return format.ReadIndexPlace(b[:]), err
}

// read reads the record at a place, and checks it.
func (x *indexFile) read(p format.IndexPlace) (format.Record, error) {
	size := x.Digest.Len
	if p.Off > size || uint64(p.Len) > size-p.Off {
		return "", fmt.Errorf("entry %d: %d bytes at offset %d of %d", p.ID, p.Len, p.Off, size)
	}
	b := make([]byte, p.Len)
	if _, err := x.snapshot.ReadAt(b, int64(p.Off)); err != nil {
		return "", fmt.Errorf("entry %d: %w", p.ID, err)
	}
	if crc32.Checksum(b, format.Castagnoli()) != p.CRC {
		return "", fmt.Errorf("entry %d: checksum mismatch", p.ID)
	}
	rec, err := format.DecodeRecord(b)
	if err == nil && rec.ID() != p.ID {
		err = fmt.Errorf("entry %d: the record is of entry %d", p.ID, rec.ID())
	}
	return rec, err
}

// named returns the records that have a text as name, or as alias.
func (x *indexFile) named(text string, alias bool) []format.Record {
	return x.find(text, alias, func(other string) bool { return other == text })
}

// find returns the records with a name, or an alias, that the file lists with the hash
// of a text and that is the same.
func (x *indexFile) find(text string, alias bool, same func(string) bool) (list []format.Record) {
	hash := x.NameHash(text)
	n := int(x.Sections[format.IndexNames].Len / format.IndexNameSize)
	names := x.section(format.IndexNames)
	var b [format.IndexNameSize]byte
	read := func(i int) (h uint64, err error) {
		_, err = names.ReadAt(b[:], int64(i)*format.IndexNameSize)
		return binary.LittleEndian.Uint64(b[:]), err
	}
	var err error
	i := sort.Search(n, func(i int) bool {
		var h uint64
		if err == nil {
			h, err = read(i)
		}
		return err != nil || h >= hash
	})
	for ; i < n && err == nil; i++ {
		var h uint64
		if h, err = read(i); err != nil || h != hash {
			break
		}
		owner := binary.LittleEndian.Uint32(b[8:])
		if owner&1 != 0 != alias {
			continue
		}
		var p format.IndexPlace
		if p, err = x.place(int(owner >> 1)); err != nil {
			break
		}
		r := x.record(p.ID)
		if r != "" && (!alias && same(r.Name()) || alias && slices.ContainsFunc(r.Aliases(), same)) {
			list = append(list, r)
		}
	}
	if err != nil {
		x.fail(err)
	}
	slices.SortFunc(list, func(a, b format.Record) int { return cmp.Compare(a.ID(), b.ID()) })
	return slices.Compact(list)
}

// all returns the bytes of a section.
func (x *indexFile) all(section int) ([]byte, error) {
	b := make([]byte, x.Sections[section].Len)
	if _, err := x.section(section).ReadAt(b, 0); err != nil && len(b) > 0 {
		return nil, err
	}
	return b, nil
}

// related returns the IDs of the entries with relations.
func (x *indexFile) related() []uint64 {
	b, err := x.all(format.IndexRelations)
	if err != nil {
		x.fail(err)
		return nil
	}
	ids := make([]uint64, len(b)/8)
	for i := range ids {
		ids[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return ids
}

// Close closes the index file and the snapshot.
func (x *indexFile) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed(fs.ErrClosed)
	err := x.f.Close()
	if x.snapshot != nil {
		err = errors.Join(err, x.snapshot.Close())
	}
	return err
}
