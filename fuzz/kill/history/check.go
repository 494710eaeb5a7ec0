package history

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"crabmem/crmem"
)

// Checker knows what each prefix of a history leaves. It may be used by
// several goroutines.
type Checker struct {
	mu      sync.Mutex
	writers []*Writer
	states  [][]state // by writer and number of operations done
}

// state is what a writer's prefix leaves: the sum of its entries' hashes, and
// the next id when that is known.
type state struct {
	sum    uint64
	len    int
	nextID uint64
}

// NewChecker returns the checker of a history of so many writers.
func NewChecker(seed uint64, writers int) *Checker {
	c := &Checker{states: make([][]state, writers)}
	for i := range writers {
		c.writers = append(c.writers, NewWriter(seed, i, writers == 1))
		c.states[i] = []state{c.writers[i].state()}
	}
	return c
}

// Check tells whether a store that holds entries, in this order, is what the
// progress allows: of each writer at least the acknowledged operations and at
// most the issued ones, in order. nextID is the store's. It returns the number
// of operations found of each writer.
func (c *Checker) Check(p *Progress, nextID uint64, entries iter.Seq[crmem.Entry]) ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := make([]state, len(c.writers))
	var last uint64
	for e := range entries {
		if e.ID <= last {
			return nil, fmt.Errorf("entry %q has id %d after id %d", e.Name, e.ID, last)
		}
		last = e.ID
		w := slices.IndexFunc(c.writers, func(w *Writer) bool { return strings.HasPrefix(e.Name, w.prefix()) })
		if w < 0 {
			return nil, fmt.Errorf("entry %q was written by nobody", e.Name)
		}
		if c.writers[w].nextID == 0 {
			e.ID = 0
		}
		got[w].sum += hash(e)
		got[w].len++
	}
	if nextID <= last {
		return nil, fmt.Errorf("next id %d, and id %d exists", nextID, last)
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

// find returns the longest prefix of writer i that leaves the state.
func (c *Checker) find(i int, got state, p *Progress) (int, error) {
	acked, issued := p.Acked[i], p.Issued[i]
	for len(c.states[i]) <= issued {
		c.writers[i].Next()
		c.states[i] = append(c.states[i], c.writers[i].state())
	}
	for n := issued; n >= acked; n-- {
		if c.states[i][n] == got {
			return n, nil
		}
	}
	for n := acked - 1; n >= 0; n-- {
		if c.states[i][n] == got {
			return 0, fmt.Errorf("writer %d: %d operations acknowledged, and the state is that after %d: %d lost", i, acked, n, acked-n)
		}
	}
	return 0, fmt.Errorf("writer %d: %d operations acknowledged, %d issued, and the state (%d entries, next id %d) is that of no prefix; after %d operations it is %d entries, next id %d",
		i, acked, issued, got.len, got.nextID, acked, c.states[i][acked].len, c.states[i][acked].nextID)
}

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
	b = binary.LittleEndian.AppendUint64(b, e.CreatedAt)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Kind))
	for _, s := range append([]string{e.Name, e.Content}, e.Aliases...) {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return maphash.Bytes(hashSeed, b)
}

// Progress counts, by writer, the operations that were begun and those that
// were acknowledged.
type Progress struct{ Issued, Acked []int }

// NewProgress returns the progress of a history that has not begun.
func NewProgress(writers int) *Progress {
	return &Progress{Issued: make([]int, writers), Acked: make([]int, writers)}
}

// Clone returns a copy.
func (p *Progress) Clone() *Progress {
	return &Progress{Issued: append([]int(nil), p.Issued...), Acked: append([]int(nil), p.Acked...)}
}

// Issued returns the line that says that a writer begins its operation n, from
// 1.
func Issued(writer, n int) []byte { return fmt.Appendf(nil, "i %d %d\n", writer, n) }

// Acked returns the line that says that the operation n was acknowledged.
func Acked(writer, n int) []byte { return fmt.Appendf(nil, "a %d %d\n", writer, n) }

// Read takes what Issued and Acked wrote, one line or several. A last line
// without its end is what a killed writer did not finish: it is not counted.
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
			p.Acked[w] = max(p.Acked[w], n) // a promise is not taken back
		default:
			return fmt.Errorf("mark %q: unknown kind", line)
		}
	}
}
