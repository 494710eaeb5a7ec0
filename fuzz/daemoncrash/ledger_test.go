package daemoncrash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ledger contains the values and lines that the clients of a daemon issued, and
// which of them the daemon acknowledged.
type ledger struct {
	cells    map[string]*cell    // entries, titles, cron entries, the configuration; by kind and name
	sessions map[string]*session // by agent and sender
}

// cell is a value that requests replace. The value "" means that the item does not
// exist.
type cell struct {
	now   string   // last acknowledged value
	maybe []string // values of requests without a response
}

// session is the expected content of a session.
type session struct {
	id    string  // stored ID
	lines []*line // issued lines, in order
}

// line is a line of a session.
type line struct {
	text  string // kind and text; a pattern ends with *
	acked bool
}

func newLedger() *ledger { return &ledger{cells: map[string]*cell{}, sessions: map[string]*session{}} }

// clone returns a deep copy.
func (l *ledger) clone() *ledger {
	c := newLedger()
	for k, v := range l.cells {
		c.cells[k] = &cell{v.now, slices.Clone(v.maybe)}
	}
	for k, v := range l.sessions {
		c.sessions[k] = &session{id: v.id}
		for _, x := range v.lines {
			c.sessions[k].lines = append(c.sessions[k].lines, &line{x.text, x.acked})
		}
	}
	return c
}

// begin records a request to set a cell.
func (l *ledger) begin(key, value string) {
	c := l.cells[key]
	if c == nil {
		c = &cell{}
		l.cells[key] = c
	}
	c.maybe = append(c.maybe, value)
}

// ack records that the request to set a cell is acknowledged.
func (l *ledger) ack(key, value string) { l.cells[key] = &cell{now: value} }

// session returns the session of a key. It adds a missing one.
func (l *ledger) session(key string) *session {
	t := l.sessions[key]
	if t == nil {
		t = &session{}
		l.sessions[key] = t
	}
	return t
}

// issue adds lines that are not acknowledged yet, and returns them.
func (t *session) issue(texts ...string) []*line {
	at := len(t.lines)
	for _, text := range texts {
		t.lines = append(t.lines, &line{text: text})
	}
	return t.lines[at:]
}

// issueHalf issues the answer of a turn whose response was cut, if this turn is the
// last one: the next message makes the pieces an answer. A power cut may have
// removed the pieces, so the line is never acknowledged.
func (t *session) issueHalf() {
	for _, x := range slices.Backward(t.lines) {
		if strings.HasPrefix(x.text, "piece ") {
			t.issue("assistant *")
			return
		}
		if !strings.HasPrefix(x.text, "failed ") {
			return
		}
	}
}

// found is the state that a daemon reports after a crash.
type found struct {
	cells    map[string]string   // values, by kind and name
	sessions map[string][]string // lines, by agent and sender
	ids      map[string]string   // stored session IDs, by agent and sender
	crons    map[string]uint64   // IDs of cron entries, by arguments
	archives map[string]bool     // texts of archives
}

// check returns an error if an acknowledged item is missing, or if an item exists
// that no request issued. If resumed is true, each summary must have an archive.
// Otherwise a summary in the last line of a session may lack an archive.
func (l *ledger) check(f *found, resumed bool) error {
	for key, c := range l.cells {
		if got := f.cells[key]; got != c.now && !slices.Contains(c.maybe, got) {
			return fmt.Errorf("%s: found %q, acknowledged %q, issued %q", key, got, c.now, c.maybe)
		}
	}
	summaries := map[string]bool{}
	for key, lines := range f.sessions {
		if err := l.session(key).check(lines); err != nil {
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
	for key, t := range l.sessions {
		if f.sessions[key] == nil {
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

// streams reports whether a piece is the beginning of the next answer after a line.
func (t *session) streams(at int, piece string) bool {
	for _, x := range t.lines[at:] {
		if strings.HasPrefix(x.text, "piece ") {
			return false
		}
		if strings.HasPrefix(x.text, "assistant ") {
			return piece != "" && strings.HasPrefix(x.text, "assistant "+piece)
		}
	}
	return false
}

// check compares the lines of a session with the issued lines. Each acknowledged
// line must occur once and in order. Other issued lines may be missing. A response that
// took longer than a second also has a piece with its beginning, which is its answer if
// another message follows.
func (t *session) check(got []string) error {
	at := 0
	half := ""
	for _, text := range got {
		if piece, ok := strings.CutPrefix(text, "piece "); ok && t.streams(at, piece) {
			half = "assistant " + piece
			continue
		}
		isHalf := text == half
		half = ""
		if isHalf && !slices.ContainsFunc(t.lines[at:], func(x *line) bool { return x.text == text }) {
			continue
		}
		for at < len(t.lines) && !t.lines[at].fits(text) {
			if t.lines[at].acked {
				return fmt.Errorf("found %q instead of the acknowledged %q; all lines: %q", text, t.lines[at].text, got)
			}
			at++
		}
		if at == len(t.lines) {
			return fmt.Errorf("found %q, which no request issued at this position; all lines: %q", text, got)
		}
		at++
	}
	for _, x := range t.lines[at:] {
		if x.acked {
			return fmt.Errorf("the acknowledged line %q is lost; all lines: %q", x.text, got)
		}
	}
	return nil
}

// fits reports whether text equals the line or matches the pattern.
func (x *line) fits(text string) bool {
	if prefix, ok := strings.CutSuffix(x.text, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return x.text == text
}

// settle makes the found state the acknowledged state.
func (l *ledger) settle(f *found) {
	for key := range l.cells {
		delete(l.cells, key)
	}
	for key, value := range f.cells {
		l.ack(key, value)
	}
	clear(l.sessions)
	for key, lines := range f.sessions {
		t := l.session(key)
		t.id = f.ids[key]
		for _, text := range lines {
			t.lines = append(t.lines, &line{text, true})
		}
	}
}

// counts returns the number of acknowledged cells and lines of each kind.
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
	for t := range maps.Values(l.sessions) {
		for _, x := range t.lines {
			if kind, _, _ := strings.Cut(x.text, " "); x.acked {
				n[kind]++
			}
		}
	}
	return n
}
