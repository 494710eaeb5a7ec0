// Package crmem stores the memories of agents in one file.
//
// The file is a CRMEM v1 snapshot (FORMAT.md). Each write appends to a log next
// to the snapshot and syncs it before the write returns. A checkpoint writes
// the operations of the log into the snapshot. Acknowledged writes survive a
// crash. Open returns the offset and the reason if a file is invalid.
//
//	s, err := crmem.Open("memory.db", nil)
//	e, err := s.Remember("deploy", "prod steps", []string{"ship"})
//	r, err := s.Search(ctx, crmem.Query{Text: "ship", Limit: 5})
//	err = s.Close()
//
// Packages checkpoint, limits, and repair contain values of options and reports.
// Package tree reads and writes Markdown trees, package inspect lists the fields
// of a file. DESIGN.md gives the reasons for the formats and protocols.
package crmem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"crabmem/bm25"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// Suffixes of the files next to memory.db. Temporary files are named
// ".memory.db" and digits.
const (
	idSuffix      = "-id"
	heldSuffix    = ".held" // after walSuffix
	walSuffix     = "-wal"
	lockSuffix    = "-lock"
	reserveSuffix = "-reserve"
	historySuffix = "-history"
	tornSuffix    = "-wal.torn-"
	ownSuffix     = ".own-"
)

const (
	defaultMaxBytes = 1 << 30
	minLogLimit     = 4 << 20
	smallSnapshot   = 1 << 20
)

// Store is an open store. It is safe for concurrent use; readers never wait
// for the disk.
type Store struct {
	fs   vfs.FS  // immutable
	path string  // resolved; "" in RAM. Changed, under wmu and mu, only by create
	link string  // the symbolic link that Open resolved, or ""
	opts Options // immutable after Open

	without uint8 // parts of the ranking that a test disables

	// mu guards the state of readers. Writers hold it only while they change
	// memory, after the sync.
	mu      sync.RWMutex
	t       table
	nextID  uint64
	lazyLog *format.LogScan // while t has a file: the log that Open read
	// lazySnapshot contains the records of the snapshot of a lazy reader, if t had no file.
	lazySnapshot []rec
	builtFor     time.Duration // time that building the indexes took
	hashed       time.Time     // before Open read the snapshot
	noIndexFile  bool          // index files are not opened
	logged       []logged      // operations of the log, while index files may be opened
	loggedIn     uint64        // salt of the log that Open read
	version      uint64        // counts the changes of t
	ix           [2]*index     // by analysis.Analyzer; nil until it is wanted

	// The leader of a group, or a checkpoint, holds the token while it writes
	// to the files. Sending acquires it. It is acquired before wmu.
	token chan struct{}
	crowd int // callers of the last group; under the token

	// wmu guards the write side below. It is not held during a sync of the
	// log. t, nextID, version, logged and dbDig change only under wmu and mu both, so a
	// holder of either may read them.
	wmu     sync.Mutex
	closed  bool
	stopped error // first error; later writes are refused
	absent  bool  // the file does not exist yet; no lock is held
	staging *group
	flight  *group
	written *group // its memory is reused for the next group

	lock     vfs.Locked
	lockInfo fs.FileInfo // of the locked file
	holder   vfs.LockHolder
	dirty    bool      // the lock file has state dirty
	id       format.ID // zero until the first write
	idSaved  bool      // the identity file has it
	log      vfs.File
	logStat  fileStat         // of log; while that is nil, of the log that the next write replaces
	heldInfo fs.FileInfo      // of the second link, if this writer may replace it
	linked   bool             // the second link is the log
	kept     string           // the file that keepState wrote
	ownNamed bool             // warnOwn ran
	w        format.LogWriter // the end of the log
	base     uint64           // sequence number that the snapshot covers
	ops      int              // operations in the log
	dbDig    format.Digest    // of the snapshot file
	dbStat   fileStat         // of the snapshot file, as last read or written
	distrust bool             // the files must be rewritten, whatever they contain
	spare    bool             // the reserve file is believed to be there

	// sizes guards onDisk, of which only the sizes of the files are set, and
	// known. It is held for the assignment alone, whatever else is held.
	sizes  sync.Mutex
	onDisk Stats
	known  knownSnapshot

	folding       sync.Mutex         // held during a fold; acquired last
	folded        folded             // guarded by folding
	pruneAt       time.Time          // earliest time to check HistoryLimit again; guarded by folding
	checkpointing sync.RWMutex       // read-locked by a checkpoint that runs while writers do, locked by a purge or prune; acquired first
	purging       map[uint64]bool    // ids of entries whose purge is not complete; under wmu
	redacting     map[redaction]bool // redactions that are not complete; under wmu
	retrying      bool               // retryPurge runs; under wmu
	interrupted   bool               // finishPurge began, and has not succeeded; under wmu
	segmentLimit  int64              // a larger segment is not appended to
	maxCompressed int                // maximum of segments that a fold compresses
	bg            sync.WaitGroup     // background checkpoint and index build
	busy          bool               // a background checkpoint runs; under wmu
	checkpointAt  int64              // after a failed checkpoint: least length of the log for the next one; under wmu
	usage         usage
	changes       changeTimes
	vectors       vectors
	ctx           context.Context
	stop          context.CancelFunc // ends the index build
}

func newStore(o *Options) *Store {
	s := &Store{nextID: 1, token: make(chan struct{}, 1), segmentLimit: segmentBytes, maxCompressed: segmentsCompressed}
	if o != nil {
		s.opts = *o
	}
	if s.opts.FS == nil {
		s.opts.FS = vfs.OS{}
	}
	if p := s.opts.AssistantPrior; !(p > 0 && p <= 1) {
		s.opts.AssistantPrior = bm25.DefaultWeights.Assistant
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.MaxBytes == 0 {
		s.opts.MaxBytes = defaultMaxBytes
	}
	s.fs = s.opts.FS
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// New returns an empty store in RAM: it touches no file.
func New(o *Options) *Store {
	s := newStore(o)
	s.opts.ReadOnly = false
	s.keepVectors()
	return s
}

// Open opens the store in the file path. A missing file is an empty store; the
// first write creates the file.
//
// Errors: [vfs.ErrLocked] (*[vfs.LockedError]), [ErrFormat] (*[FormatError] if
// the offset is known), [ErrForeign], [ErrNoStore], and the system's.
func Open(path string, o *Options) (*Store, error) {
	s := newStore(o)
	resolved, err := s.fs.Resolve(path)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.path = resolved
	if fi, err := s.fs.Lstat(path); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		s.link = path
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.hashed = s.opts.Now()
	if s.opts.ReadOnly {
		err = s.openReader()
	} else if err = s.openWriter(); err == nil && s.opts.Socket != "" {
		err = s.declare()
	}
	if err != nil {
		if !s.ownNamed {
			s.warnOwn(ownCopies(s.fs, s.path))
			if s.link != "" {
				s.warnOwn(ownCopies(s.fs, s.link))
			}
		}
		s.stop()
		return nil, err
	}
	s.measured()
	if s.opts.CountReads {
		s.keepUsage()
	}
	if !s.opts.ReadOnly || s.opts.CountReads {
		s.keepVectors()
	}
	return s, nil
}

func (s *Store) openWriter() error {
	fi, err := s.fs.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		absent, aerr := s.absence()
		if aerr != nil {
			return aerr
		}
		if absent {
			s.warnAbsent()
		}
		if absent && s.opts.MustExist {
			return fmt.Errorf("%w: %s does not exist", ErrNoStore, s.path)
		}
		if absent {
			s.absent = true
			return nil
		}
		fi, err = s.fs.Lstat(s.path)
	}
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() { // before a lock file is created next to a device
		return notAStore(&fs.PathError{Op: "open", Path: s.path, Err: vfs.ErrNotRegular})
	}
	return s.lockAndRecover()
}

// declare writes the socket to the lock file. On an error it releases the lock.
func (s *Store) declare() error {
	err := s.ready()
	if err == nil {
		err = s.markDirty()
	}
	if err != nil && s.lock != nil {
		err = errors.Join(err, s.unlock())
		if s.log != nil {
			err = errors.Join(err, s.log.Close())
			s.log = nil
		}
	}
	return err
}

// lockAndRecover takes the lock and reads the files. On an error it releases
// the lock.
func (s *Store) lockAndRecover() error {
	before, fresh, err := s.acquire()
	if err != nil {
		return err
	}
	if err := s.recover(before, fresh); err != nil {
		err = errors.Join(err, s.unlock())
		if s.log != nil {
			err = errors.Join(err, s.log.Close())
			s.log = nil
		}
		return err
	}
	s.resumePurge()
	return nil
}

// measured updates the sizes of the files for Stats, and the digest of the snapshot
// for ChangesOf. The caller holds wmu.
func (s *Store) measured() {
	s.sizes.Lock()
	defer s.sizes.Unlock()
	s.onDisk = Stats{SnapshotBytes: s.dbStat.size(), LogBytes: s.w.End, LogOps: s.ops}
	s.known = knownSnapshot{s.dbStat, s.dbDig}
}

func (s *Store) warn(format string, args ...any) {
	if s.opts.Warn != nil {
		s.opts.Warn(fmt.Sprintf(format, args...))
	}
}

// Close checkpoints as Options define, ends background work, and releases the
// lock. Later writes and calls of Close return [fs.ErrClosed]. The error is
// that of the checkpoint, or [ErrStopped] with the reason if the store stopped
// earlier. It states whether the log contains every operation. If only the history
// cannot be written, Close reports that with Options.Warn and leaves the log.
func (s *Store) Close() error {
	s.mu.Lock()
	s.stop() // no index is begun after this
	s.mu.Unlock()
	s.wmu.Lock()
	if s.closed {
		s.wmu.Unlock()
		return errClosed
	}
	s.closed = true // no operation is staged after this
	s.wmu.Unlock()
	s.bg.Wait()
	if s.opts.CountReads {
		s.closeUsage()
	}
	s.closeVectors()

	s.token <- struct{}{} // wait for staged and active writes
	s.commit()
	<-s.token
	var err error
	if s.checkpointsOnClose() {
		if err = s.checkpoint(); errors.Is(err, errUnfolded) {
			s.warn("%v", err)
			err = nil
		} else if err != nil {
			err = fmt.Errorf("checkpoint on close: %w", err)
		}
	}
	s.wmu.Lock()
	err = s.lastCheck(err) // may read the complete store through an index file
	s.wmu.Unlock()
	s.closeIndexes()
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
		s.log = nil
	}
	if s.lock != nil {
		if s.dirty && s.stopped == nil {
			err = errors.Join(err, s.markClean(s.w.End))
		}
		err = errors.Join(err, s.unlock())
	}
	return err
}
