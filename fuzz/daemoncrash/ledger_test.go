package daemoncrash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ledger is the operations that the clients of a daemon issued, and those that
// the daemon acknowledged.
type ledger struct {
	cells map[string]*cell // entries, titles, crons, the configuration; by kind and name
	talks map[string]*talk // sessions, by agent and sender
}

// cell is a value that requests replace. "" is an absent one.
type cell struct {
	now   string
	maybe []string // of requests without a response
}

// talk is a session.
type talk struct {
	id    string // stored
	lines []*line
}

// line is a line of a session: its kind and text. A pattern ends in *.
type line struct {
	text string
	must bool // acknowledged
}

func newLedger() *ledger { return &ledger{cells: map[string]*cell{}, talks: map[string]*talk{}} }

// clone returns a copy that later acknowledgements leave alone.
func (l *ledger) clone() *ledger {
	c := newLedger()
	for k, v := range l.cells {
		c.cells[k] = &cell{v.now, slices.Clone(v.maybe)}
	}
	for k, v := range l.talks {
		c.talks[k] = &talk{id: v.id}
		for _, x := range v.lines {
			c.talks[k].lines = append(c.talks[k].lines, &line{x.text, x.must})
		}
	}
	return c
}

// begin notes that a request may set a cell.
func (l *ledger) begin(key, value string) {
	c := l.cells[key]
	if c == nil {
		c = &cell{}
		l.cells[key] = c
	}
	c.maybe = append(c.maybe, value)
}

// ack notes that a cell is set.
func (l *ledger) ack(key, value string) { l.cells[key] = &cell{now: value} }

func (l *ledger) talk(key string) *talk {
	t := l.talks[key]
	if t == nil {
		t = &talk{}
		l.talks[key] = t
	}
	return t
}

// issue adds lines that may be in the session from now on.
func (t *talk) issue(texts ...string) []*line {
	at := len(t.lines)
	for _, text := range texts {
		t.lines = append(t.lines, &line{text: text})
	}
	return t.lines[at:]
}

// found is the state that a daemon reports after a crash.
type found struct {
	cells    map[string]string
	talks    map[string][]string
	ids      map[string]string // of sessions, by agent and sender
	crons    map[string]uint64 // ids, by arguments
	archives map[string]bool   // texts
}

// check returns an error if an acknowledged item is missing, or an item exists
// that no request issued. After a resume every summary must have its archive.
func (l *ledger) check(f *found, resumed bool) error {
	for key, c := range l.cells {
		if got := f.cells[key]; got != c.now && !slices.Contains(c.maybe, got) {
			return fmt.Errorf("%s: found %q, acknowledged %q, issued %q", key, got, c.now, c.maybe)
		}
	}
	summaries := map[string]bool{}
	for key, lines := range f.talks {
		if err := l.talk(key).check(lines); err != nil {
			return fmt.Errorf("session of %s: %w", key, err)
		}
		for i, text := range lines {
			summary, ok := strings.CutPrefix(text, "marker ")
			if !ok {
				continue
			}
			summaries[summary] = true
			if !f.archives[summary] && (resumed || i < len(lines)-1) {
				return fmt.Errorf("session of %s: the summary %q has no archive", key, summary)
			}
		}
	}
	for key, t := range l.talks {
		if f.talks[key] == nil {
			if err := t.check(nil); err != nil {
				return fmt.Errorf("session of %s: %w", key, err)
			}
		}
	}
	for key, got := range f.cells {
		summary, archive := strings.CutPrefix(got, "archive ")
		if l.cells[key] == nil && !(archive && summaries[summary]) {
			return fmt.Errorf("%s: found %q, which no request issued", key, got)
		}
	}
	return nil
}

// check compares the lines of a session with the issued ones: each acknowledged
// line once and in order, of the others some.
func (t *talk) check(got []string) error {
	at := 0
	for _, text := range got {
		for at < len(t.lines) && !t.lines[at].fits(text) {
			if t.lines[at].must {
				return fmt.Errorf("found %q, where %q is acknowledged; all lines: %q", text, t.lines[at].text, got)
			}
			at++
		}
		if at == len(t.lines) {
			return fmt.Errorf("found %q, which no request issued there; all lines: %q", text, got)
		}
		at++
	}
	for _, x := range t.lines[at:] {
		if x.must {
			return fmt.Errorf("%q is acknowledged and lost; all lines: %q", x.text, got)
		}
	}
	return nil
}

func (x *line) fits(text string) bool {
	if prefix, ok := strings.CutSuffix(x.text, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return x.text == text
}

// settle makes the found state the acknowledged one.
func (l *ledger) settle(f *found) {
	for key := range l.cells {
		delete(l.cells, key)
	}
	for key, value := range f.cells {
		l.ack(key, value)
	}
	clear(l.talks)
	for key, lines := range f.talks {
		t := l.talk(key)
		t.id = f.ids[key]
		for _, text := range lines {
			t.lines = append(t.lines, &line{text, true})
		}
	}
}

// counts returns how many cells and lines of each kind are acknowledged.
func (l *ledger) counts() map[string]int {
	n := map[string]int{}
	for key, c := range l.cells {
		if kind, _, _ := strings.Cut(key, " "); c.now != "" {
			if strings.HasPrefix(c.now, "archive ") {
				kind = "archive"
			}
			n[kind]++
		}
	}
	for t := range maps.Values(l.talks) {
		for _, x := range t.lines {
			if kind, _, _ := strings.Cut(x.text, " "); x.must {
				n[kind]++
			}
		}
	}
	return n
}
