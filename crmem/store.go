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

	"crabmem/crmem/checkpoint"
	"crabmem/crmem/embed"
	"crabmem/crmem/history"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// Options are how a store is opened. The zero value is the default.
type Options struct {
	FS  vfs.FS           // nil: the machine's
	Now func() time.Time // nil: time.Now

	// ReadOnly opens without a lock, concurrently with a writer, and never
	// writes the store. Readers see the state at the time of Open.
	ReadOnly bool
	// MustExist makes a missing file ErrNoStore. Otherwise it is an empty
	// store, which the first write creates.
	MustExist bool

	// Lazy makes Open read only the log if an index file describes the snapshot. Then
	// Get, Search, Apply and similar methods read the entries that they need, and other
	// methods first call Load. If Load fails in a method without an error, such as
	// [Store.All], the method yields nothing and the store stops: Close returns the error.
	Lazy bool

	// LockWait is how long Open waits for another writer. 0: not at all.
	LockWait time.Duration
	// Command and Socket identify the lock holder in the lock file. If Socket
	// is set, Open records it and creates a missing store immediately, so that
	// other processes find the lock and the socket.
	Command, Socket string

	// MaxBytes limits the snapshot. A larger file is refused before it is read,
	// and so is a write that would exceed the limit. 0: 1 GiB.
	MaxBytes int64
	// LogLimit is the length of the log that starts a background checkpoint. 0:
	// 4 MiB or a quarter of the snapshot, whichever is larger.
	LogLimit int64
	// Literal checkpoints on every write, as RFC 0150 prescribes.
	Literal bool
	// LogVersion is the version of the logs that checkpoints begin: 2, or 1
	// for programs that know only that. 0: 2.
	LogVersion int
	// By is recorded in the log as the origin of changes, unless a batch contains
	// an operation [By].
	By history.Actor
	// History selects whether the store keeps its history. Default: [history.On].
	History history.Mode
	// HistoryLimit limits the age of changes in the history. After a checkpoint, older
	// changes are removed if the oldest is older than 1.25 times HistoryLimit
	// (FORMAT.md, H13). 0 is no limit.
	HistoryLimit time.Duration
	// CheckpointOnClose selects when Close checkpoints. Default:
	// [checkpoint.Always].
	CheckpointOnClose checkpoint.Mode

	// CountReads counts how often Get and Search return each entry, for
	// [Store.Usage]. The counts are written every 30 seconds and by Close, to a file
	// that may be lost. It is for processes that keep the store open.
	CountReads bool

	// ImportanceWeight makes Search multiply the score of each match by 1 +
	// ImportanceWeight * its [Importance], for the analyzer Standard. It is from 0,
	// which is off, to 1. HalfLife is the time in which the recency of an entry
	// falls to half; 0 is 30 days.
	ImportanceWeight float64

	// AssistantPrior is the factor of the scores of messages whose metadata has the role
	// assistant, for the analyzer Standard: above 0, and 1 at most. Other values, such as
	// 0, are 0.7.
	AssistantPrior float64
	HalfLife       time.Duration

	// Embed is the model of the vectors that [Query.Semantic] needs. Unless ReadOnly is
	// set without CountReads, the store sends it the texts of new and changed entries in
	// the background, after the writes return. The vectors are in a file that may be lost.
	Embed *embed.Model

	// Indexing is called while an index is built, with the number of its entries.
	// Calls may be concurrent and out of order.
	Indexing func(done, total int)

	// Warn receives one line per repair or anomaly. If nil, they are discarded.
	Warn func(string)
}

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

	folding       sync.Mutex      // held during a fold; acquired last
	folded        folded          // guarded by folding
	pruneAt       time.Time       // earliest time to check HistoryLimit again; guarded by folding
	checkpointing sync.RWMutex    // read-locked by a checkpoint that runs while writers do, locked by a purge or prune; acquired first
	purging       map[uint64]bool // ids of entries whose purge is not complete; under wmu
	segmentLimit  int64           // a larger segment is not appended to
	maxCompressed int             // maximum of segments that a fold compresses
	bg            sync.WaitGroup  // background checkpoint and index build
	busy          bool            // a background checkpoint runs; under wmu
	checkpointAt  int64           // after a failed checkpoint: least length of the log for the next one; under wmu
	usage         usage
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
		s.opts.AssistantPrior = defaultPrior
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
// earlier. It states whether the log contains every operation.
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
	s.closeUsage()
	s.closeVectors()

	s.token <- struct{}{} // wait for staged and active writes
	s.commit()
	<-s.token
	var err error
	if s.checkpointsOnClose() {
		if err = s.checkpoint(); err != nil {
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
