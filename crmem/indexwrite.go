package crmem

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/blocks"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// savedFrom is the time that building an index must take so that a program that only
// reads writes an index file. Tests change it.
var savedFrom = 50 * time.Millisecond

// An indexWriter is the state that an index file describes.
type indexWriter struct {
	format.IndexFooter
	recs      []rec // of the snapshot; some may have no encoding
	relations []uint64
	messages  []byte // section IndexConversations
	search    io.WriterTo
}

// saveIndexes writes the index files of the indexes that are complete in memory.
// snapshot contains the records of the snapshot with a digest. Errors have no effect: the
// next program that needs the file writes it.
func (s *Store) saveIndexes(dig format.Digest, snapshot []rec) {
	for a := range analysis.Analyzer(len(s.ix)) {
		w, b := s.indexWriter(a, dig, snapshot)
		if w == nil {
			continue
		}
		isCurrent := func() bool { return b.isCurrent(s.fs, s.path) }
		writeDerived(s.fs, s.path, indexSuffix(a), b.snapshot.size(), isCurrent, w.write)
	}
}

// indexWriter returns the present state of the store and of an index. It returns nil if
// the index is not complete in memory, or if the snapshot on disk is another one.
func (s *Store) indexWriter(a analysis.Analyzer, dig format.Digest, snapshot []rec) (*indexWriter, basis) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	ix := s.ix[a]
	if ix == nil || ix.building || ix.err != nil || ix.file != nil || s.t.file != nil || s.stopped != nil || s.dbDig != dig || dig.Len == 0 {
		return nil, basis{}
	}
	fi := s.dbStat.info
	id := vfs.Identify(fi)
	w := &indexWriter{recs: snapshot, relations: slices.Sorted(maps.Keys(ix.relations)), messages: ix.conversations.encode(), search: ix.x.Snapshot()}
	w.IndexFooter = format.IndexFooter{
		Analyzer: uint32(a), Digest: s.dbDig,
		Dev: id.Dev, Ino: id.Ino, Modified: fi.ModTime().UnixNano(), Hashed: s.hashed.UnixNano(),
	}
	if t := vfs.ChangeTime(fi); !t.IsZero() {
		w.Changed = t.UnixNano()
	}
	b := basis{snapshot: s.dbStat}
	b.salt = s.w.Salt
	if s.ops > 0 {
		w.LogSalt, w.Seq, w.LogSum = s.w.Salt, s.w.Seq-1, s.w.Sum()
	}
	return w, b
}

// write writes the index file.
func (w *indexWriter) write(to io.Writer) error {
	rand.Read(w.Seed[:]) // does not fail
	b := blocks.NewWriter(to)
	for i, write := range [...]func(to io.Writer) error{
		format.IndexEntries:       w.entries,
		format.IndexNames:         w.names,
		format.IndexRelations:     writeBytes(appendAll(nil, w.relations)),
		format.IndexConversations: writeBytes(w.messages),
		format.IndexSearch:        func(to io.Writer) error { _, err := w.search.WriteTo(to); return err },
	} {
		w.Sections[i].Off = uint64(b.Len())
		if err := write(b); err != nil {
			return err
		}
		w.Sections[i].Len = uint64(b.Len()) - w.Sections[i].Off
	}
	return writeFooter(to, &w.IndexFooter, uint64(b.Len()), b.Sums())
}

func writeBytes(b []byte) func(to io.Writer) error {
	return func(to io.Writer) error { _, err := to.Write(b); return err }
}

// writeFooter writes the checksums of the blocks and the footer.
func writeFooter(to io.Writer, f *format.IndexFooter, data uint64, sums []byte) error {
	f.Data, f.SumsCRC = data, crc32.Checksum(sums, format.Castagnoli())
	_, err := to.Write(f.Append(slices.Clone(sums)))
	return err
}

func appendAll(b []byte, list []uint64) []byte {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// entries writes the places of the records, and counts them.
func (w *indexWriter) entries(to io.Writer) error {
	off := uint64(format.HeaderSize)
	var b []byte
	for _, r := range w.recs {
		if r.enc == "" {
			continue
		}
		if Kind(r.enc.Kind()) == Note {
			w.Notes++
		} else {
			w.Archives++
		}
		p := format.IndexPlace{ID: r.id, Off: off, Len: uint32(len(r.enc)), CRC: format.RecordSum(r.enc)}
		off += uint64(len(r.enc))
		if b = p.Append(b); len(b) >= blocks.Size {
			if _, err := to.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	w.Bytes = off - format.HeaderSize
	_, err := to.Write(b)
	return err
}

// names writes the hashes of the names and aliases, of their normal forms, and of their
// keys for links.
func (w *indexWriter) names(to io.Writer) error {
	type name struct {
		hash  uint64
		owner uint32 // number of the entry times 2, plus 1 for an alias
	}
	list := make([]name, 0, len(w.recs))
	add := func(text string, owner uint32) {
		list = append(list, name{w.NameHash(text), owner})
		form := normalForm(text)
		if form != text {
			list = append(list, name{w.NameHash(form), owner})
		}
		if key := linkKey(text); key != text && key != form {
			list = append(list, name{w.NameHash(key), owner})
		}
	}
	n := uint32(0)
	for _, r := range w.recs {
		if r.enc == "" {
			continue
		}
		add(r.enc.Name(), n<<1)
		for _, a := range r.enc.Aliases() {
			add(a, n<<1|1)
		}
		n++
	}
	slices.SortFunc(list, func(a, b name) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.owner, b.owner)) })
	b := make([]byte, 0, len(list)*format.IndexNameSize)
	for _, v := range list {
		b = binary.LittleEndian.AppendUint64(b, v.hash)
		b = binary.LittleEndian.AppendUint32(b, v.owner)
	}
	_, err := to.Write(b)
	return err
}

// confirm writes an index file again if its footer did not identify the snapshot,
// whose digest was computed now. Then the next program need not read the snapshot.
func (s *Store) confirm(x *indexFile, log *format.LogScan) {
	fi := x.confirmed
	if fi == nil || s.hashed.Sub(vfs.ChangeTime(fi)) < hashedFor || vfs.ChangeTime(fi).IsZero() {
		return
	}
	f := *x.IndexFooter
	id := vfs.Identify(fi)
	f.Dev, f.Ino = id.Dev, id.Ino
	f.Modified, f.Changed, f.Hashed = fi.ModTime().UnixNano(), vfs.ChangeTime(fi).UnixNano(), s.hashed.UnixNano()
	b := basis{snapshot: fileStat{fi}}
	if log != nil {
		b.salt = log.Salt
	}
	isCurrent := func() bool { return b.isCurrent(s.fs, s.path) }
	writeDerived(s.fs, s.path, indexSuffix(analysis.Analyzer(f.Analyzer)), int64(f.Data), isCurrent, func(w io.Writer) error {
		if _, err := io.Copy(w, io.NewSectionReader(x.blocks, 0, x.blocks.Len())); err != nil {
			return err
		}
		return writeFooter(w, &f, f.Data, x.blocks.Sums())
	})
}

// indexSuffix returns the suffix of the index file of an analyzer.
func indexSuffix(a analysis.Analyzer) string {
	if a == analysis.Plain {
		return indexPlainSuffix
	}
	return indexStandardSuffix
}

// closeIndexes writes index files, if that saves later programs time, and closes the
// open ones. The store is closed, except for its lock.
func (s *Store) closeIndexes() {
	if s.opts.Lazy && s.opts.ReadOnly && s.t.file == nil && s.builtFor >= savedFrom {
		s.saveIndexes(s.dbDig, s.lazySnapshot)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeFiles()
	if x := s.t.file; x != nil {
		if s.opts.ReadOnly && x.broken() == nil {
			s.confirm(x, s.lazyLog)
		}
		x.Close()
	}
}

// closeFiles closes the files of the indexes, except for that of the table. The caller
// holds mu.
func (s *Store) closeFiles() {
	for _, ix := range s.ix {
		if ix != nil && ix.file != nil && ix.file != s.t.file {
			ix.file.Close()
		}
	}
}
