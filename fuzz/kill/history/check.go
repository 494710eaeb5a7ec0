// Package history generates the operations of crash tests, and checks stores and
// sessions after a crash.
//
// A seed determines a history, so that the killed process and the checker generate
// the same one. The names of each writer are different. After a crash, a writer's
// entries must equal its state after a prefix of its operations, independently of
// other writers. SessionWriter and SessionChecker do the same for sessions.
package history

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"crabmem/crmem"
)

// Checker computes the state after each prefix of a history. It is safe for
// concurrent use.
type Checker struct {
	mu      sync.Mutex
	writers []*Writer
	states  [][]state // by writer and number of operations
	purged  [][]purged
	texts   []map[string][]string // of entries that exist, by writer and name
}

// purged is a text that the n-th operation of a writer purges.
type purged struct {
	n    int
	text string
}

// state is the state of a writer's entries after a prefix of its operations.
type state struct {
	sum    uint64 // of the hashes of the entries
	len    int
	nextID uint64 // 0 if other writers share the IDs
}

// NewChecker returns the checker of a history with the given number of writers.
func NewChecker(seed uint64, writers int) *Checker {
	c := &Checker{states: make([][]state, writers), purged: make([][]purged, writers)}
	for i := range writers {
		c.texts = append(c.texts, map[string][]string{})
		c.writers = append(c.writers, NewWriter(seed, i, writers == 1))
		c.states[i] = []state{c.writers[i].state()}
	}
	return c
}

// Check compares the entries of a store, in order, with the progress. The state of
// each writer must include all acknowledged operations and no operation that was
// not issued. nextID is the next ID of the store. Check returns the number of
// operations found, by writer.
func (c *Checker) Check(p *Progress, nextID uint64, entries iter.Seq[crmem.Entry]) ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := make([]state, len(c.writers))
	var last uint64
	for e := range entries {
		if e.ID <= last {
			return nil, fmt.Errorf("entry %q has ID %d after ID %d", e.Name, e.ID, last)
		}
		last = e.ID
		w := slices.IndexFunc(c.writers, func(w *Writer) bool { return strings.HasPrefix(e.Name, w.prefix()) })
		if w < 0 {
			return nil, fmt.Errorf("entry %q is from no writer", e.Name)
		}
		if c.writers[w].nextID == 0 {
			e.ID = 0
		}
		got[w].sum += hash(e)
		got[w].len++
	}
	if nextID <= last {
		return nil, fmt.Errorf("next ID is %d, but ID %d exists", nextID, last)
	}
	found := make([]int, len(c.writers))
	for i := range c.writers {
		if c.writers[i].nextID > 0 {
			got[i].nextID = nextID
		}
		n, err := c.find(i, got[i], p)
		if err != nil {
			return nil, err
		}
		found[i] = n
	}
	return found, nil
}

// find returns the length of writer i's longest prefix with the state got.
func (c *Checker) find(i int, got state, p *Progress) (int, error) {
	acked, issued := p.Acked[i], p.Issued[i]
	c.grow(i, issued)
	for n := issued; n >= acked; n-- {
		if c.states[i][n] == got {
			return n, nil
		}
	}
	for n := acked - 1; n >= 0; n-- {
		if c.states[i][n] == got {
			return 0, fmt.Errorf("writer %d: %d operations acknowledged, but the state is the one after %d: %d lost", i, acked, n, acked-n)
		}
	}
	return 0, fmt.Errorf("writer %d: %d operations acknowledged, %d issued, but the state (%d entries, next ID %d) matches no prefix; want after %d operations: %d entries, next ID %d",
		i, acked, issued, got.len, got.nextID, acked, c.states[i][acked].len, c.states[i][acked].nextID)
}

// grow computes the states up to operation n of writer i.
func (c *Checker) grow(i, n int) {
	for len(c.states[i]) <= n {
		ops := c.writers[i].Next()
		at, texts := len(c.states[i]), c.texts[i]
		for _, op := range ops {
			switch o := op.(type) {
			case crmem.Add:
				texts[o.Name] = append(texts[o.Name], o.Content)
			case crmem.Update:
				texts[o.Name] = append(texts[o.Name], o.Content)
			case crmem.Remove:
				if Purges(at, ops) {
					for _, text := range texts[o.Name] {
						c.purged[i] = append(c.purged[i], purged{at, text})
					}
				}
				delete(texts, o.Name)
			}
		}
		c.states[i] = append(c.states[i], c.writers[i].state())
	}
}

// CheckPurged returns an error if a file below dir contains a text of an acknowledged
// purge, or how many texts it looked for. It looks for the beginnings and ends of texts
// of at least 16 bytes, which are random.
func (c *Checker) CheckPurged(p *Progress, dir string) (texts int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for i := range c.writers {
		c.grow(i, p.Acked[i])
		for _, g := range c.purged[i] {
			if len(g.text) >= 16 && g.n <= p.Acked[i] {
				texts++
				parts = append(parts, g.text[:min(32, len(g.text))], g.text[max(0, len(g.text)-32):])
			}
		}
	}
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if name == dir && errors.Is(err, fs.ErrNotExist) {
			return nil // the process was killed before it created the store
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		for _, part := range parts {
			if err == nil && bytes.Contains(b, []byte(part)) {
				return fmt.Errorf("%s contains the purged text %q", name, part)
			}
		}
		return err
	})
	return texts, err
}

// state returns the current state of the writer's entries.
func (w *Writer) state() state {
	s := state{len: len(w.live), nextID: w.nextID}
	for _, e := range w.live {
		s.sum += hash(e)
	}
	return s
}

var hashSeed = maphash.MakeSeed()

func hash(e crmem.Entry) uint64 {
	b := binary.LittleEndian.AppendUint64(nil, e.ID)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.CreatedAt))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Kind))
	for _, s := range append([]string{e.Name, e.Content}, e.Aliases...) {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return maphash.Bytes(hashSeed, b)
}

// Progress is the number of issued and of acknowledged operations, by writer.
type Progress struct{ Issued, Acked []int }

// NewProgress returns the progress before the first operation.
func NewProgress(writers int) *Progress {
	return &Progress{Issued: make([]int, writers), Acked: make([]int, writers)}
}

// Clone returns a deep copy.
func (p *Progress) Clone() *Progress {
	return &Progress{Issued: append([]int(nil), p.Issued...), Acked: append([]int(nil), p.Acked...)}
}

// Issued returns the line that a writer prints before operation n, from 1.
func Issued(writer, n int) []byte { return fmt.Appendf(nil, "i %d %d\n", writer, n) }

// Acked returns the line that a writer prints after the acknowledgment of operation
// n.
func Acked(writer, n int) []byte { return fmt.Appendf(nil, "a %d %d\n", writer, n) }

// Read adds the lines of Issued and Acked from r to the progress. It ignores an
// incomplete last line.
func (p *Progress) Read(r io.Reader) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var kind byte
		var w, n int
		if _, err := fmt.Fscanf(bytes.NewReader(line), "%c %d %d\n", &kind, &w, &n); err != nil {
			return fmt.Errorf("mark %q: %w", line, err)
		}
		if w < 0 || w >= len(p.Acked) {
			return fmt.Errorf("mark %q: no such writer", line)
		}
		switch kind {
		case 'i':
			p.Issued[w] = n
		case 'a':
			p.Acked[w] = max(p.Acked[w], n) // the count never decreases
		default:
			return fmt.Errorf("mark %q: unknown kind", line)
		}
	}
}
