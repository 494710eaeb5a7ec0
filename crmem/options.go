package crmem

import (
	"time"

	"crabmem/crmem/embed"
	"crabmem/crmem/vfs"
)

// CheckpointMode selects when Close checkpoints the log.
type CheckpointMode uint8

const (
	CheckpointAlways CheckpointMode = iota // so that the snapshot contains every entry
	CheckpointAuto                         // if the snapshot is at most 1 MiB, or the log is larger than a quarter of it
	CheckpointNever
)

// HistoryMode selects whether a store keeps its history.
type HistoryMode uint8

const (
	HistoryOn  HistoryMode = iota // checkpoints move the log's operations to the history
	HistoryOff                    // checkpoints discard them
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
	// By is recorded in the log as the origin of changes, unless a batch contains
	// an operation [By].
	By Actor
	// History selects whether the store keeps its history. Default: [HistoryOn].
	History HistoryMode
	// HistoryLimit limits the age of changes in the history. After a checkpoint, older
	// changes are removed if the oldest is older than 1.25 times HistoryLimit
	// (FORMAT.md, H13). 0 is no limit.
	HistoryLimit time.Duration
	// CheckpointOnClose selects when Close checkpoints. Default:
	// [CheckpointAlways].
	CheckpointOnClose CheckpointMode

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
	// 0, are 0.72.
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
