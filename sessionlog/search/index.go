package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/embed"
	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/feed"
)

// IndexOptions are the options of an [Index]. The zero value is ready to use.
type IndexOptions struct {
	// Analyzer turns text into terms.
	Analyzer analysis.Analyzer
	// Tools also indexes and shows the results and arguments of tool calls. They
	// contain the files, environments, and secrets that agents read.
	Tools bool
	// Embed, if set, is a model for Query.Semantic. The index embeds its texts in the
	// background, and keeps their vectors in [sessionlog.VectorFile]. One
	// process needs no more than one such index of a folder.
	Embed *embed.Model
}

// Index finds messages in all sessions of a folder. It follows the writes of
// this process; [Index.Refresh] reads the writes of other processes. It is safe
// for concurrent use.
//
// Documents are all messages with text, all summaries, and for every session
// its title, agent, and sender. Names of called tools are indexed, but not
// their results. Reasoning is never indexed.
type Index struct {
	folder   feed.Folder
	detach   func() // ends the calls of watcher
	analyzer analysis.Analyzer
	tools    bool

	refreshing sync.Mutex // one Refresh at a time; acquired before mu

	// mu guards the fields below, including the entries, and their consistency
	// with docs. Files are read without mu.
	mu      sync.RWMutex
	docs    *bm25.Index       // has its own lock; changes only under mu
	entries []*entry          // by ordinal; nil if removed
	parties []parties         // by ordinal: fields for filters
	numbers map[string]uint32 // of agents and senders, from 1
	// ordered reports that the ordinals are in the order in which the sessions
	// were created, as after a build. newest is the last of entries.
	ordered bool
	newest  *entry
	byName  map[string]*entry // by name of the file in the folder
	counts  counts            // of all documents
	unread  map[string]error  // files that could not be read
	// removals counts removed and renamed files. If it changes while a file is
	// read, the result is discarded.
	removals uint64
	building bool // NewIndex is at work
	late     bool // something was written during that
	closed   bool
	writes   indexReader // state for the writes of this process
	without  int         // parts of the ranking; for tests

	texts *texts // nil without a model
	// The background work on vectors ends with ctx; work waits for it.
	ctx  context.Context
	end  context.CancelFunc
	work sync.WaitGroup
}

var errIndexClosed = errors.New("the index is closed")

// counts are numbers of documents by class.
type counts [classes]int

// NewIndex reads every session of a folder on all cores. The index follows the
// writes through the Dir until it is closed. A Dir has one index at a time.
//
// NewIndex omits files that cannot be read: see [Index.Unread].
func NewIndex(d *sessionlog.Dir, o *IndexOptions) (*Index, error) {
	x := &Index{byName: make(map[string]*entry), unread: make(map[string]error), numbers: make(map[string]uint32), building: true}
	if o != nil {
		x.analyzer, x.tools = o.Analyzer, o.Tools
	}
	x.docs = bm25.New(x.analyzer)
	x.writes.tools = x.tools
	// Subscribe before reading, so that no write is missed.
	var ok bool
	if x.folder, x.detach, ok = feed.Attach(d, watcher{x}); !ok {
		return nil, fmt.Errorf("index %s: folder has an index: close it first", d.Path())
	}
	if o != nil && o.Embed != nil {
		x.texts = newTexts(o.Embed, x.folder.FS, x.folder.Path)
	}
	files, err := x.list()
	if err == nil {
		err = x.build(files)
	}
	if err != nil {
		x.detach()
		return nil, err
	}
	x.mu.Lock()
	x.building = false
	late := x.late
	x.mu.Unlock()
	if late {
		if err := x.Refresh(); err != nil {
			x.detach()
			return nil, err
		}
	}
	if x.texts != nil {
		x.mu.Lock()
		x.texts.prune()
		x.mu.Unlock()
		x.ctx, x.end = context.WithCancel(context.Background())
		x.keepVectors()
	}
	return x, nil
}

// Close releases the index. Later searches return an error.
func (x *Index) Close() error {
	x.detach()
	if x.end != nil {
		x.end()
		x.work.Wait()
		x.saveVectors() //nolint:errcheck // the next index computes the vectors again
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.docs, x.entries, x.byName = bm25.New(x.analyzer), nil, make(map[string]*entry)
	x.parties, x.numbers = nil, make(map[string]uint32)
	return nil
}

// Unread returns why files of the folder could not be read, by name. Their
// messages are not found; Refresh tries them again.
func (x *Index) Unread() map[string]error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.unread)
}

// Len returns the number of documents.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.docs.Len()
}
