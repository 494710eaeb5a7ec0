package format

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The footer of an index file (FORMAT.md, "Index file").
const (
	IndexFooterSize = 512

	indexFileMagic   = "CRMEMIDX"
	indexFileVersion = 8

	// IndexEntrySize is the size of an entry of section IndexEntries, and
	// IndexNameSize of section IndexNames.
	IndexEntrySize = 24
	IndexNameSize  = 12
)

// The sections of an index file.
const (
	IndexEntries       = iota // places of the records in the snapshot, ascending by ID
	IndexNames                // hashes of names, of aliases, and of their other forms, ascending
	IndexRelations            // IDs of entries with relations
	IndexConversations        // the messages of conversations
	IndexSearch               // the search index
	indexSections
)

// IndexFooter is the footer of an index file: the state of the store that the file
// describes, and the places of its parts.
type IndexFooter struct {
	Analyzer uint32
	Digest   Digest // of the snapshot

	// The file that the digest was computed from, and when.
	Dev, Ino          uint64
	Modified, Changed int64 // times in unix nanoseconds; 0: unknown
	Hashed            int64 // unix nanoseconds

	// The last operation of the log that the search index contains: its log, sequence
	// number and checksum. All are zero if it contains only the snapshot.
	LogSalt, Seq uint64
	LogSum       uint32

	Notes, Archives uint64
	Bytes           uint64   // of the records
	Seed            [16]byte // of the hashes

	Data     uint64 // length of the sections; the checksums of the blocks follow
	SumsCRC  uint32 // CRC-32C of those
	Sections [indexSections]struct{ Off, Len uint64 }
}

// Append appends the encoded footer.
func (f *IndexFooter) Append(b []byte) []byte {
	start := len(b)
	b = append(b, indexFileMagic...)
	b = binary.LittleEndian.AppendUint32(b, indexFileVersion)
	b = binary.LittleEndian.AppendUint32(b, f.Analyzer)
	b = f.Digest.Append(b)
	for _, v := range []uint64{f.Dev, f.Ino, uint64(f.Modified), uint64(f.Changed), uint64(f.Hashed), f.LogSalt, f.Seq, f.Notes, f.Archives, f.Bytes, f.Data} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, f.LogSum)
	b = binary.LittleEndian.AppendUint32(b, f.SumsCRC)
	b = append(b, f.Seed[:]...)
	for _, s := range f.Sections {
		b = binary.LittleEndian.AppendUint64(b, s.Off)
		b = binary.LittleEndian.AppendUint64(b, s.Len)
	}
	b = append(b, make([]byte, start+IndexFooterSize-4-len(b))...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], Castagnoli()))
}

// ReadIndexFooter decodes the last bytes of a file of a size. It returns an error for
// a footer of another version, and for parts outside the file.
func ReadIndexFooter(b []byte, size int64) (*IndexFooter, error) {
	if len(b) != IndexFooterSize || string(b[:8]) != indexFileMagic {
		return nil, errors.New("not an index file")
	}
	if crc := binary.LittleEndian.Uint32(b[IndexFooterSize-4:]); crc != crc32.Checksum(b[:IndexFooterSize-4], Castagnoli()) {
		return nil, errors.New("footer: checksum mismatch")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != indexFileVersion {
		return nil, fmt.Errorf("version %d: want %d", v, indexFileVersion)
	}
	f := &IndexFooter{Analyzer: binary.LittleEndian.Uint32(b[12:]), Digest: ReadDigest(b[16:])}
	at := 32
	u64 := func() uint64 {
		at += 8
		return binary.LittleEndian.Uint64(b[at-8:])
	}
	f.Dev, f.Ino, f.Modified, f.Changed, f.Hashed = u64(), u64(), int64(u64()), int64(u64()), int64(u64())
	f.LogSalt, f.Seq, f.Notes, f.Archives, f.Bytes, f.Data = u64(), u64(), u64(), u64(), u64(), u64()
	f.LogSum, f.SumsCRC = binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:])
	at += 8
	at += copy(f.Seed[:], b[at:])
	for i := range f.Sections {
		f.Sections[i].Off, f.Sections[i].Len = u64(), u64()
	}
	blocks := (f.Data + indexFileBlock - 1) / indexFileBlock
	if f.Data > uint64(size) || f.Data+4*blocks+IndexFooterSize != uint64(size) {
		return nil, fmt.Errorf("%d bytes of sections in a file of %d bytes", f.Data, size)
	}
	for _, s := range f.Sections {
		if s.Off > f.Data || s.Len > f.Data-s.Off {
			return nil, fmt.Errorf("section of %d bytes at offset %d, after the end at %d", s.Len, s.Off, f.Data)
		}
	}
	if n := f.Entries(); f.Sections[IndexEntries].Len%IndexEntrySize != 0 || f.Notes > n || f.Archives != n-f.Notes ||
		f.Sections[IndexNames].Len%IndexNameSize != 0 || f.Sections[IndexRelations].Len%8 != 0 {
		return nil, fmt.Errorf("%d notes and %d archives, but %d entries", f.Notes, f.Archives, n)
	}
	return f, nil
}

// indexFileBlock is the length of a block with a checksum.
const indexFileBlock = 64 << 10

// Entries returns the number of entries.
func (f *IndexFooter) Entries() uint64 { return f.Sections[IndexEntries].Len / IndexEntrySize }

// NameHash returns the hash of a name or an alias in section IndexNames.
func (f *IndexFooter) NameHash(name string) uint64 {
	b := make([]byte, 0, 128)
	b = append(append(b, f.Seed[:]...), name...)
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// IndexPlace is an entry of section IndexEntries.
type IndexPlace struct {
	ID  uint64
	Off uint64 // in the snapshot
	Len uint32
	CRC uint32 // CRC-32C of the record
}

// Append appends the encoded place.
func (p IndexPlace) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, p.ID)
	b = binary.LittleEndian.AppendUint64(b, p.Off)
	b = binary.LittleEndian.AppendUint32(b, p.Len)
	return binary.LittleEndian.AppendUint32(b, p.CRC)
}

// ReadIndexPlace decodes a place.
func ReadIndexPlace(b []byte) IndexPlace {
	return IndexPlace{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[20:])}
}

// RecordSum returns the checksum of a record in an IndexPlace.
func RecordSum(r Record) uint32 { return crc32.Checksum(bytesOf(r), Castagnoli()) }
