package crmem

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// usageInterval is the time between two writes of the counts of reads.
const usageInterval = 30 * time.Second

// usageTicks returns the times to write the counts at. Tests change it.
var usageTicks = func() (ticks <-chan time.Time, stop func()) {
	t := time.NewTicker(usageInterval)
	return t.C, t.Stop
}

// usage counts the reads of entries (FORMAT.md, "Counts of reads"). Its mutex is held
// only to read or change the maps, whatever else is held.
type usage struct {
	writing sync.Mutex // held while the file is read or written; acquired before mu
	mu      sync.Mutex
	loaded  atomic.Bool             // the file was read
	stored  map[uint64]format.Usage // of the file, as last read or written; changes under both
	counted map[uint64]format.Usage // since then
}

// changeTimes are the times of the last changes of entries: 0 for an entry that did not
// change after its creation. An entry that the history does not contain has none.
type changeTimes struct {
	load sync.Once         // reads the history; acquired before the store's mu
	at   map[uint64]uint64 // under the store's mu; nil before load
}

// Use is when an entry was changed and read, as far as the store knows.
type Use struct {
	UpdatedAt   UnixTime `json:"updated_at,omitzero"`  // of the last change after the creation
	AccessedAt  UnixTime `json:"accessed_at,omitzero"` // of the last counted read
	AccessCount uint64   `json:"access_count,omitzero"`
}

// AddUse sets the use of entries. It reads the history, and ignores the damaged parts.
func (s *Store) AddUse(entries ...*EntryInfo) {
	s.loadUsage()
	var times map[uint64]uint64
	if s.opts.ReadOnly && len(entries) == 1 {
		times = timesOf(s.ChangesOfID(entries[0].ID)) // the next reader has another state
	} else {
		s.loadChanges()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if times == nil {
		times = s.changes.at
	}
	for _, e := range entries {
		e.UpdatedAt = UnixTime(times[e.ID])
		if reads, last := s.usageOf(e.ID); reads > 0 {
			e.AccessCount, e.AccessedAt = reads, UnixTime(last.Unix())
		}
	}
}

// loadChanges reads the times of the last changes, once. The caller does not hold mu.
func (s *Store) loadChanges() {
	s.changes.load.Do(func() {
		s.mu.Lock()
		s.changes.at = make(map[uint64]uint64) // from now on noteChanges adds the times of writes
		s.mu.Unlock()
		read := timesOf(s.Changes())
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.Copy(read, s.changes.at)
		s.changes.at = read
	})
}

// timesOf returns the times of the last changes.
func timesOf(changes iter.Seq2[Change, error]) map[uint64]uint64 {
	times := make(map[uint64]uint64)
	for c, err := range changes {
		if err == nil {
			setTime(times, c.Entry().ID, c.Type == ChangeAdd, c.Time.Unix())
		}
	}
	return times
}

// setTime sets the time of a change. The first change of an entry may be its creation.
func setTime(times map[uint64]uint64, id uint64, adds bool, at int64) {
	if _, known := times[id]; adds && !known {
		at = 0
	}
	times[id] = uint64(max(at, 0))
}

// noteChanges updates the times of changes after a write. The caller holds mu.
func (s *Store) noteChanges(effects []effect, now int64) {
	for i := range effects {
		if e := &effects[i]; s.changes.at != nil {
			setTime(s.changes.at, e.id, e.typ == format.FramePut && e.old == "", now)
		}
	}
}

// countReads counts a read of each hit.
func (s *Store) countReads(hits []Hit) {
	now := uint64(max(s.opts.Now().Unix(), 0))
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	for i := range hits {
		s.usage.add(format.Usage{ID: hits[i].ID, CreatedAt: uint64(hits[i].CreatedAt), Reads: 1, Last: now})
	}
}

// add adds counts that the file does not contain. The caller holds mu.
func (u *usage) add(row format.Usage) {
	old, ok := u.counted[row.ID]
	if ok && old.CreatedAt == row.CreatedAt {
		row.Add(old)
	}
	if u.counted == nil {
		u.counted = make(map[uint64]format.Usage)
	}
	u.counted[row.ID] = row
}

// Usage returns how often long-lived processes returned an entry from Get, or as a hit
// of Search, and when they did last: see [Options.CountReads]. Without a read, it
// returns 0 and the zero time.
func (s *Store) Usage(id uint64) (reads uint64, last time.Time) {
	s.loadUsage()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.usageOf(id)
}

// usageOf is Usage after loadUsage. The caller holds mu for reading.
func (s *Store) usageOf(id uint64) (reads uint64, last time.Time) {
	r := s.t.byID(id)
	if r == "" {
		return 0, time.Time{}
	}
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	sum := format.Usage{}
	for _, rows := range []map[uint64]format.Usage{s.usage.stored, s.usage.counted} {
		if u, ok := rows[id]; ok && u.CreatedAt == r.CreatedAt() {
			sum.Add(u)
		}
	}
	if sum.Reads == 0 {
		return 0, time.Time{}
	}
	return sum.Reads, time.Unix(int64(min(sum.Last, 1<<62)), 0)
}

// loadUsage reads the file, once.
func (s *Store) loadUsage() {
	if s.usage.loaded.Load() {
		return
	}
	s.usage.writing.Lock()
	defer s.usage.writing.Unlock()
	path := s.Path()
	if s.usage.loaded.Load() || path == "" {
		return
	}
	var rows []format.Usage
	id, err := readIdentity(s.fs, path)
	if err == nil {
		rows, _ = readUsage(s.fs, path, id)
	}
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.stored = byID(rows)
	s.usage.loaded.Store(true)
}

func byID(rows []format.Usage) map[uint64]format.Usage {
	m := make(map[uint64]format.Usage, len(rows))
	for _, r := range rows {
		m[r.ID] = r
	}
	return m
}

// readUsage returns the counts of the file of a store, or none if it is missing or to
// be ignored (FORMAT.md, X1 and X2). The error is that of a file that may be valid.
func readUsage(fsys vfs.FS, path string, id format.ID) (rows []format.Usage, err error) {
	f, fi, err := vfs.OpenDerived(fsys, path+usageSuffix)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, vfs.ErrNotRegular) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi.Size() > format.UsageSize(format.MaxUsageRows) {
		return nil, nil
	}
	b := make([]byte, fi.Size())
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	rows, _ = format.DecodeUsage(b, id)
	return rows, nil
}

// keepUsage writes the counts at each tick until the store is closed.
func (s *Store) keepUsage() {
	ticks, stop := usageTicks()
	s.bg.Go(func() {
		defer stop()
		for {
			select {
			case <-ticks:
				s.writeUsage()
			case <-s.ctx.Done():
				return
			}
		}
	})
}

// closeUsage writes the counts when the store is closed. If another process writes
// derived files, closeUsage tries again for at most 100 ms.
func (s *Store) closeUsage() {
	for range 20 {
		if s.writeUsage() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// writeUsage adds the counts since the last write to those of the file, which other
// processes may have changed. It returns false if another process writes derived files.
// Otherwise the counts are written, or there is a reason that does not pass soon. Counts
// that were not written remain for the next call. The caller must not hold wmu or mu.
func (s *Store) writeUsage() bool {
	u := &s.usage
	u.writing.Lock()
	defer u.writing.Unlock()
	path := s.Path()
	u.mu.Lock()
	none := len(u.counted) == 0
	u.mu.Unlock()
	if none || path == "" {
		return true
	}
	id, err := readIdentity(s.fs, path)
	if err != nil {
		return true
	}
	u.mu.Lock()
	counted := u.counted
	u.counted = nil
	u.mu.Unlock()
	known := s.knownEntries()
	var rows []format.Usage
	size := format.UsageSize(len(counted) + len(u.stored))
	written, err := writeDerived(s.fs, path, usageSuffix, size, func() bool { return true }, func(w io.Writer) error {
		stored, err := readUsage(s.fs, path, id)
		if err != nil {
			return err
		}
		rows = mergeUsage(stored, counted, known)
		_, err = w.Write(format.EncodeUsage(id, rows))
		return err
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if written {
		u.stored = byID(rows)
		u.loaded.Store(true)
		return true
	}
	for _, row := range counted { // with those that were counted meanwhile
		u.add(row)
	}
	return err != nil
}

// knownEntries returns a function that reports whether an entry exists. A reader does
// not know the entries that were created after it read the store: it keeps all counts.
func (s *Store) knownEntries() func(format.Usage) bool {
	if s.opts.ReadOnly {
		return func(format.Usage) bool { return true }
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	created := make(map[uint64]uint64, s.t.live)
	for _, r := range s.t.recs {
		if r.enc != "" {
			created[r.id] = r.enc.CreatedAt()
		}
	}
	return func(u format.Usage) bool {
		at, ok := created[u.ID]
		return ok && at == u.CreatedAt
	}
}

// mergeUsage returns the sums of the counts of known entries, ascending by ID. If there
// are too many, it drops those with the earliest reads.
func mergeUsage(stored []format.Usage, counted map[uint64]format.Usage, known func(format.Usage) bool) []format.Usage {
	sums := byID(stored)
	for id, c := range counted {
		if old, ok := sums[id]; ok && old.CreatedAt == c.CreatedAt {
			c.Add(old)
		}
		sums[id] = c
	}
	rows := slices.DeleteFunc(slices.Collect(maps.Values(sums)), func(u format.Usage) bool { return !known(u) })
	if len(rows) > maxUsage {
		slices.SortFunc(rows, func(a, b format.Usage) int { return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(b.ID, a.ID)) })
		rows = rows[:maxUsage]
	}
	slices.SortFunc(rows, func(a, b format.Usage) int { return cmp.Compare(a.ID, b.ID) })
	return rows
}

// maxUsage limits the rows that a writer keeps. Tests change it.
var maxUsage = format.MaxUsageRows
