package crmem

import (
	"time"

	"crabmem/crmem/vfs"
)

// The fixes for files of other programs ([ErrNewer], [ErrOlder]).
const (
	FixNewer = "use the program that wrote the file, or a newer version of crabmem"
	FixOlder = "run crabmem checkpoint with the program that wrote the log, then crabmem repair --keep-db to quarantine the log"
)

// CheckReport is the result of Check.
type CheckReport struct {
	Path          string    `json:"path"`
	Entries       int       `json:"entries"` // that a reader sees
	SnapshotBytes int64     `json:"snapshot_bytes"`
	LogBytes      int64     `json:"log_bytes"`
	LogOps        int       `json:"log_ops"`
	PurgePending  bool      `json:"purge_pending,omitempty"` // a purge or redaction is not complete
	Problems      []Problem `json:"problems"`
}

// Problem is one deviation from a valid store.
type Problem struct {
	Kind    string `json:"kind" op:"words=torn|rot|format|foreign|missing|kept|history"`
	File    string `json:"file"`
	Offset  int64  `json:"offset"` // of the first byte concerned
	Length  int64  `json:"length"` // bytes concerned; 0 if unknown
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	Err     error  `json:"-"` // has the text Message
}

// IsTorn reports whether the problem is a torn tail: a write that was never
// acknowledged. A torn tail is not corruption: the next writer quarantines it.
func (p *Problem) IsTorn() bool { return p.Kind == "torn" }

// Err returns the error of the first problem other than a torn tail
// (ErrFormat, ErrForeign, ErrNoStore), or nil.
func (r *CheckReport) Err() error {
	for _, p := range r.Problems {
		if !p.IsTorn() {
			return p.Err
		}
	}
	return nil
}

// RepairOptions are the options of Repair.
type RepairOptions struct {
	FS       vfs.FS        // if nil, vfs.OS
	LockWait time.Duration // as in Options
	Command  string        // as in Options
	MaxBytes int64         // as in Options

	// KeepDB uses the snapshot unchanged and quarantines a log of another
	// snapshot.
	KeepDB bool
	// KeepLog is the path of the snapshot that the log extends. Repair
	// quarantines the file with the name of the store.
	KeepLog string
	// Rejoin adds the operations from a log that another program replaced.
	Rejoin bool
	// QuarantineNewer also repairs a file with ErrNewer: it quarantines the
	// entries that only a newer program can read.
	QuarantineNewer bool
}

// RepairResult is the result of Repair. For each file the recovered and the
// quarantined bytes are all its bytes.
type RepairResult struct {
	Path    string         `json:"path"`
	Entries int            `json:"entries"` // after the repair
	Files   []RepairedFile `json:"files"`   // that were not valid
	Notes   []string       `json:"notes"`   // further changes, one line each
}

// RepairedFile accounts for the bytes of one file.
type RepairedFile struct {
	File      string `json:"file"`
	Bytes     int64  `json:"bytes"`
	Recovered int64  `json:"recovered"`
	Aside     int64  `json:"aside"` // not valid; quarantined in Kept
	Kept      string `json:"kept"`  // quarantine file: all of a snapshot, or the rest of a log
}
