// Package cortex maintains memory: by rules and without a model, it proposes changes of
// notes. A change is made only after a person accepts it. FORMAT.md describes the file of
// the proposals.
package cortex

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/journal"
)

// Kinds of proposals.
const (
	Duplicate = "duplicate" // merge two notes with nearly the same text
	Related   = "related"   // link two notes with much of the same text
	Prune     = "prune"     // remove a note of low importance
)

// Proposal is a change of notes that a person may accept.
type Proposal struct {
	N     int      `json:"n" jsonschema:"number"`
	Kind  string   `json:"kind" op:"words=duplicate|related|prune"`
	Names []string `json:"names,omitempty" jsonschema:"notes; of two, the earlier one first"` // not in the file
	IDs   []uint64 `json:"ids" jsonschema:"of the notes"`
	Was   []string `json:"was" jsonschema:"digests of the notes"`
	Why   string   `json:"why" jsonschema:"the reason"`
	At    string   `json:"at" jsonschema:"RFC 3339"`
}

// answer is a person's answer to a proposal.
type answer struct {
	N      int    `json:"n"`
	Accept bool   `json:"accept"`
	At     string `json:"at"`
}

// record is a line of the file.
type record struct {
	Proposal *Proposal `json:"proposal,omitempty"`
	Answer   *answer   `json:"answer,omitempty"`
	Next     *uint64   `json:"next,omitempty"`
}

// Book has the proposals of a store.
type Book struct {
	Proposals []Proposal

	file     *journal.File[record]
	answered map[int]bool
	known    map[string]bool // keys of proposals
	next     uint64          // ID of the note with which the next pass begins
}

// Errors of answers.
var (
	ErrNotFound = errors.New("no such proposal")
	ErrAnswered = errors.New("the proposal has an answer")
	ErrChanged  = errors.New("the notes changed since the proposal")
)

// lockWait limits the wait for another process that changes the file.
const lockWait = 10 * time.Second

func pathOf(store string) string {
	return filepath.Join(filepath.Dir(store), "cortex", "proposals.jsonl")
}

// Read returns the proposals of a store in a file.
func Read(fsys vfs.FS, store string) (*Book, error) {
	file, lines, err := journal.Open[record](fsys, pathOf(store))
	if err != nil {
		return nil, fmt.Errorf("read proposals: %w", err)
	}
	b := &Book{file: file, answered: make(map[int]bool), known: make(map[string]bool)}
	for i := range lines {
		b.take(&lines[i])
	}
	return b, nil
}

// Change calls change with the proposals of a store, and holds their lock.
func Change(fsys vfs.FS, store string, change func(*Book) error) error {
	return vfs.WithLock(fsys, filepath.Join(filepath.Dir(pathOf(store)), "proposals.lock"), lockWait, func() error {
		b, err := Read(fsys, store)
		if err != nil {
			return err
		}
		return errors.Join(change(b), b.file.Close())
	})
}

// take adds a line of the file. It ignores a proposal without notes, or with a number that
// does not ascend.
func (b *Book) take(r *record) {
	switch p := r.Proposal; {
	case p != nil:
		n := map[string]int{Duplicate: 2, Related: 2, Prune: 1}[p.Kind]
		if n > 0 && len(p.IDs) == n && len(p.Was) == n && p.N > b.last() {
			b.Proposals, b.known[p.key()] = append(b.Proposals, *p), true
		}
	case r.Answer != nil:
		b.answered[r.Answer.N] = true
	case r.Next != nil:
		b.next = *r.Next
	}
}

func (b *Book) last() int {
	if len(b.Proposals) == 0 {
		return 0
	}
	return b.Proposals[len(b.Proposals)-1].N
}

// write appends records, and makes them durable.
func (b *Book) write(list ...record) error {
	for i := range list {
		if err := b.file.Append(&list[i]); err != nil {
			return fmt.Errorf("write proposals: %w", err)
		}
	}
	if err := b.file.Sync(); err != nil { // the commit point of the records
		return fmt.Errorf("write proposals: %w", err)
	}
	for i := range list {
		b.take(&list[i])
	}
	return nil
}

// Open returns the proposals without an answer whose notes are as they were.
func (b *Book) Open(s *crmem.Store) (list []Proposal) {
	entries := make(map[uint64]crmem.Entry)
	for e := range s.All() {
		entries[e.ID] = e
	}
	for _, p := range b.Proposals {
		if _, err := p.notes(entries); err == nil && !b.answered[p.N] {
			list = append(list, p)
		}
	}
	return list
}

// Find returns a proposal without an answer.
func (b *Book) Find(n int) (Proposal, error) {
	i := slices.IndexFunc(b.Proposals, func(p Proposal) bool { return p.N == n })
	if i < 0 {
		return Proposal{}, fmt.Errorf("%w: %d", ErrNotFound, n)
	}
	if b.answered[n] {
		return b.Proposals[i], fmt.Errorf("%w: %d", ErrAnswered, n)
	}
	return b.Proposals[i], nil
}

// Answer records the answer to a proposal. An accepted one is already applied.
func (b *Book) Answer(n int, accept bool, now time.Time) error {
	return b.write(record{Answer: &answer{n, accept, now.UTC().Format(time.RFC3339)}})
}

// key identifies a proposal whatever its number.
func (p *Proposal) key() string { return fmt.Sprint(p.Kind, p.IDs, p.Was) }

// Name sets the names of the notes that the store has.
func (p *Proposal) Name(s *crmem.Store) { _, _ = p.find(s) }

// find is notes for a store.
func (p *Proposal) find(s *crmem.Store) ([]crmem.Entry, error) {
	entries := make(map[uint64]crmem.Entry)
	for e := range s.All() {
		if slices.Contains(p.IDs, e.ID) {
			entries[e.ID] = e
		}
	}
	return p.notes(entries)
}

// notes returns a proposal's notes, and sets their names. The error is ErrChanged if one is
// not as it was.
func (p *Proposal) notes(entries map[uint64]crmem.Entry) (list []crmem.Entry, err error) {
	p.Names = nil
	for i, id := range p.IDs {
		e, ok := entries[id]
		if !ok || digest(&e) != p.Was[i] {
			err = fmt.Errorf("%w: %d", ErrChanged, p.N)
		}
		list, p.Names = append(list, e), append(p.Names, e.Name)
	}
	return list, err
}

func digest(e *crmem.Entry) string {
	sum := sha256.Sum256([]byte(e.Name + "\x00" + e.Content))
	return hex.EncodeToString(sum[:8])
}
