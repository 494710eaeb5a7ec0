package sessionlog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// MaxRequest limits the ID of a request, in bytes.
const MaxRequest = 255

// RequestTurn is the turn that a request began (S35).
type RequestTurn struct {
	Line     int64  // of the user's message
	Content  string // of the user's message
	Answer   string // the content of the last complete response
	Answered bool   // Answer ends the turn
	Failed   string // the kind of a failure after the last response
	Newest   bool   // no later turn exists
}

// Request finds the turn of a request with an ID. It reads the complete file. ok is
// false if no user message has the ID.
func (l *Log) Request(id string) (a RequestTurn, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.use(); err != nil {
		return a, false, err
	}
	key := line.RequestKey(id)
	for n, err := range line.Numbered(l.open.file, 0, 1, l.size, l.dir.opts.MaxLine) {
		switch {
		case err != nil:
			return RequestTurn{}, false, inFile(err, l.dir.file(l.name))
		case n.Kind == record.KindMessage && n.Message.Role == record.RoleUser:
			if ok && !a.Answered && len(n.Message.Work) > 0 { // a delivery within the turn
				continue
			}
			if ok {
				a.Newest = false
				return a, true, nil
			}
			if bytes.Contains(n.Raw, key) {
				a, ok = RequestTurn{Line: n.Number, Content: n.Message.Content, Newest: true}, true
			}
		case ok:
			a.add(&n)
		}
	}
	return a, ok, nil
}

// add adds a line after the user's message.
func (a *RequestTurn) add(n *Line) {
	switch n.Kind {
	case record.KindMessage:
		if n.Message.Role == record.RoleAssistant {
			a.Answer, a.Answered, a.Failed = n.Message.Content, len(n.Message.ToolCalls) == 0, ""
		}
	case record.KindUnknown:
		if t, ok := record.ParseTurn(n.Raw); ok && t.Kind != "" {
			a.Answered, a.Failed = false, t.Kind
		}
	}
}

// maxCreatedFor is how many sessions [Dir.CreatedFor] searches.
const maxCreatedFor = 1000

// CreatedFor returns the ID of the session of an agent and a sender that was created for
// a request. It searches the newest maxCreatedFor sessions. Errors: [ErrNotFound] and
// the system's.
func (d *Dir) CreatedFor(agent, createdBy, id string) (string, error) {
	for try := 1; ; try++ {
		stored, moved, err := d.createdForOnce(agent, createdBy, string(line.RequestKey(id)))
		if stored != "" || err != nil {
			return stored, err
		}
		if !moved || try == maxMoves {
			return "", fmt.Errorf("%w of request %q", ErrNotFound, id)
		}
	}
}

// createdForOnce is CreatedFor in one listing of the folder. The ID is empty if there is
// no such session. moved is as in latestOnce.
func (d *Dir) createdForOnce(agent, createdBy, key string) (id string, moved bool, err error) {
	names, err := d.names(d.path)
	if err != nil {
		return "", false, err
	}
	prefix := prefixOf(agent, createdBy)
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := seqOf(prefix, name); return !ok })
	slices.SortFunc(names, func(a, b string) int {
		x, _ := seqOf(prefix, a)
		y, _ := seqOf(prefix, b)
		return cmp.Compare(y, x)
	})
	for _, name := range names[:min(len(names), maxCreatedFor)] {
		m, text, err := d.firstLine(d.file(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			moved = true
		case errors.Is(err, ErrFormat):
		case err != nil:
			return "", false, err
		case m.Agent == agent && m.CreatedBy == createdBy && !m.IsWork() && strings.Contains(text, key):
			id, _ := idOf(name, &m)
			return id, false, nil
		}
	}
	return "", moved, nil
}
