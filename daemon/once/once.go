// Package once records which requests with a key took effect, so that a repeated request
// has none. Its file is derived and contains no text: digests of keys and requests, and
// the entries that the requests changed.
package once

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/journal"
)

// The limits of a [Table].
const (
	Keep     = 24 * time.Hour
	maxKept  = 10_000  // records of one owner
	maxSpent = 100_000 // keys whose records are not kept
	slack    = 1_000   // lines of the file that may be old
)

// Errors of Begin and Find.
var (
	ErrReused = errors.New("an earlier request has this key and another body")
	ErrSpent  = errors.New("an earlier request has this key, and its outcome is no longer kept")
)

// The states of a record.
const (
	Begun   = "begun" // its effect is unknown
	Done    = "done"
	dropped = "dropped" // the request had no effect
	spent   = "spent"   // only the key is known
)

// Record is a request with a key, and what it changed.
type Record struct {
	Key   string `json:"key"`
	State string `json:"state"`
	Owner string `json:"owner,omitempty"` // digest of the identity
	Sum   string `json:"sum,omitempty"`   // of the request
	At    int64  `json:"at,omitempty"`    // Unix time
	Effect
}

// Effect is what a request changed.
type Effect struct {
	Space string `json:"space,omitempty"`
	Entry uint64 `json:"entry,omitempty"` // ID; 0: the space
	ETag  string `json:"etag,omitempty"`  // of the entry after the change; empty: removed
}

// KeyOf returns the digest of a key of an owner, an identity.
func KeyOf(owner, key string) string { return digest(fmt.Sprintf("%d:%s%s", len(owner), owner, key)) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Table contains the records. It is safe for concurrent use.
type Table struct {
	now func() time.Time

	mu     sync.Mutex
	file   *journal.File[Record]
	err    error // the first one of a write
	byKey  map[string]*Record
	owners map[string][]*Record     // by Owner, oldest first; some are replaced or dropped
	spent  []string                 // keys, oldest first
	active map[string]chan struct{} // keys of running requests
	stale  bool                     // the file contains digests that are not kept
	wrote  time.Time                // when the file was replaced
}

// Open returns the table in a file. With an error, the table is usable, and empty.
func Open(fsys vfs.FS, path string, now func() time.Time) (*Table, error) {
	t := &Table{now: now, byKey: make(map[string]*Record), owners: make(map[string][]*Record), active: make(map[string]chan struct{}), wrote: now()}
	file, list, err := journal.Open[Record](fsys, path)
	t.file = file
	for i := range list {
		t.set(&list[i])
	}
	return t, err
}

// Close closes the file. It returns the first error of a write.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.err, t.file.Close())
}

// lock waits until no request with a key runs. The caller must call unlock.
func (t *Table) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		t.mu.Lock()
		running, ok := t.active[key]
		if !ok {
			ended := make(chan struct{})
			t.active[key] = ended
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.active, key)
				close(ended)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Find returns the record of a request with a key, after a running one has ended. The
// state is empty if no record exists.
func (t *Table) Find(ctx context.Context, key, sum string) (Record, error) {
	unlock, err := t.lock(ctx, key)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	return t.find(key, sum)
}

func (t *Table) find(key, sum string) (Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	switch r := t.byKey[key]; {
	case r == nil:
		return Record{}, nil
	case r.State == spent:
		return Record{}, ErrSpent
	case r.Sum != sum:
		return Record{}, ErrReused
	default:
		return *r, nil
	}
}

// Do calls f unless the record of the key has the state Done, and records the effect. f
// returns nil if the request had no effect, and unknown if that is not certain. Do
// returns the record before the call.
func (t *Table) Do(ctx context.Context, owner, key, sum, space string, f func(Record) (effect *Effect, unknown bool)) (Record, error) {
	unlock, err := t.lock(ctx, key)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	before, err := t.find(key, sum)
	if err != nil || before.State == Done {
		return before, err
	}
	r := Record{Key: key, State: Begun, Owner: digest(owner), Sum: sum, At: t.now().Unix(), Effect: Effect{Space: space}}
	if before.State == Begun {
		r = before
	} else {
		t.put(r)
	}
	effect, unknown := f(before)
	switch {
	case effect != nil:
		r.State, r.Effect = Done, *effect
		t.put(r)
	case !unknown:
		t.put(Record{Key: key, State: dropped})
	}
	return before, nil
}

// Complete records the effect of a request whose state was Begun.
func (t *Table) Complete(r Record, e Effect) {
	r.State, r.Effect = Done, e
	t.put(r)
}

// put changes a record, and adds it to the file.
func (t *Table) put(r Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(&r)
	err := t.file.Append(&r)
	t.expire()
	if err == nil && t.file.Lines() > 2*len(t.byKey)+slack {
		err = t.replace()
	}
	t.err = cmp.Or(t.err, err)
}

// set changes a record. The caller holds mu, or has exclusive use of t.
func (t *Table) set(r *Record) {
	switch r.State {
	case dropped:
		delete(t.byKey, r.Key)
	case spent:
		t.spend(r.Key)
	default:
		if old := t.byKey[r.Key]; old != nil && old.State != spent {
			*old = *r
			return
		}
		t.byKey[r.Key] = r
		t.owners[r.Owner] = append(t.owners[r.Owner], r)
	}
}

// spend keeps only the key of a record, and forgets the oldest key beyond the limit.
func (t *Table) spend(key string) {
	if old := t.byKey[key]; old == nil || old.State != spent {
		t.byKey[key] = &Record{Key: key, State: spent}
		t.spent = append(t.spent, key)
	}
	for ; len(t.spent) > maxSpent; t.spent = t.spent[1:] {
		if old := t.byKey[t.spent[0]]; old != nil && old.State == spent {
			delete(t.byKey, t.spent[0])
		}
	}
}

// expire spends the records that are too old or too many. It replaces the file at most
// once per hour.
func (t *Table) expire() {
	old := t.now().Add(-Keep).Unix()
	for owner, list := range t.owners {
		n := 0
		for ; n < len(list) && (len(list)-n > maxKept || list[n].At < old || t.byKey[list[n].Key] != list[n]); n++ {
			if t.byKey[list[n].Key] == list[n] {
				t.spend(list[n].Key)
				t.stale = true
			}
		}
		if t.owners[owner] = list[n:]; n == len(list) {
			delete(t.owners, owner)
		}
	}
	if t.stale && t.now().Sub(t.wrote) >= time.Hour {
		t.err = cmp.Or(t.err, t.replace())
	}
}

// replace writes the records to a new file.
func (t *Table) replace() error {
	t.stale, t.wrote = false, t.now()
	return t.file.Replace(t.all())
}

func (t *Table) all() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, key := range t.spent {
			if r := t.byKey[key]; r != nil && r.State == spent && !yield(*r) {
				return
			}
		}
		var kept []*Record
		for _, list := range t.owners {
			for _, r := range list {
				if t.byKey[r.Key] == r {
					kept = append(kept, r)
				}
			}
		}
		slices.SortStableFunc(kept, func(a, b *Record) int { return cmp.Compare(a.At, b.At) })
		for _, r := range kept {
			if !yield(*r) {
				return
			}
		}
	}
}

// Spaces returns the spaces with records of changes of entries.
func (t *Table) Spaces() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := make(map[string]bool)
	for _, r := range t.byKey {
		if r.State == Done && r.Entry != 0 {
			set[r.Space] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Records returns the records of changes of entries in a space.
func (t *Table) Records(space string) (list []Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.byKey {
		if r.State == Done && r.Space == space && r.Entry != 0 {
			list = append(list, *r)
		}
	}
	return list
}

// Purge removes all digests of the records with some keys, also from the file.
func (t *Table) Purge(keys ...string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	for _, key := range keys {
		t.spend(key)
	}
	return t.replace()
}

// PurgeSpace is Purge for the changes of entries in a space.
func (t *Table) PurgeSpace(space string) error {
	var keys []string
	for _, r := range t.Records(space) {
		keys = append(keys, r.Key)
	}
	return t.Purge(keys...)
}
