// Package chats finds the session of a conversation whose client sends all messages with
// each request. It compares what the client sends with what it saw of each session.
package chats

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"strings"
	"sync"

	"crabmem/crmem/vfs"
	"crabmem/daemon/journal"
)

// maxMarks limits the marks of a [Table], including the marks of earlier states.
const maxMarks = 1 << 15

// A State is a digest of the messages that a client of one owner saw.
type State [sha256.Size]byte

// MarshalText returns the state in hexadecimal digits.
func (s State) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText reads what MarshalText returns.
func (s *State) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err == nil && copy(s[:], b) != len(s) {
		err = errors.New("want a digest")
	}
	return err
}

// Begin returns the state before the first message.
func Begin(owner string) State { return State{}.add("owner", owner) }

// Add returns the state after a message. Space at its ends does not count: clients
// remove it.
func (s State) Add(role, text string) State { return s.add(role, strings.TrimSpace(text)) }

func (s State) add(role, text string) State {
	b := binary.BigEndian.AppendUint64(s[:], uint64(len(role)))
	return sha256.Sum256(append(append(b, role...), text...))
}

// A Mark is what a client saw of a session after an answer.
type Mark struct {
	Session string `json:"session"`
	Owner   string `json:"owner"` // identity
	Agent   string `json:"agent"`
	Chat    State  `json:"chat"`    // what else must be equal, such as an ID of the chat
	Request string `json:"request"` // ID of the newest turn's request
	Asked   State  `json:"asked"`   // after the message of that request
	Seen    State  `json:"seen"`    // after its answer

	Once  bool   `json:"once,omitempty"`  // the client may repeat the request
	New   bool   `json:"new,omitempty"`   // the request created the session
	After string `json:"after,omitempty"` // ID of the request before, if New is not set
}

type place struct{ seen, chat State }

// group is the sessions that had a state.
type group struct {
	session string
	several bool // more than session
	marks   int
}

// Table contains the marks of the newest answers. It is safe for concurrent use.
type Table struct {
	mu     sync.Mutex
	file   *journal.File[Mark]
	err    error              // of a write
	marks  []*Mark            // oldest first
	groups map[place]*group   // of marks
	newest map[string]*Mark   // by session; no run took it
	asked  map[[2]string]Mark // those with Once, by owner and request, also before the answer; and failed ones
	order  [][2]string        // keys of asked, oldest first
}

// Open returns the table in a file. With an error, the table is usable, and empty. A lost
// file costs sessions only: their conversations continue in new ones.
func Open(fsys vfs.FS, path string) (*Table, error) {
	t := &Table{groups: make(map[place]*group), newest: make(map[string]*Mark), asked: make(map[[2]string]Mark)}
	file, list, err := journal.Open[Mark](fsys, path)
	t.file = file
	for i := range list {
		t.put(&list[i])
	}
	return t, err
}

// Close closes the file. It returns the first error of a write.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.err, t.file.Close())
}

// Take returns the mark of the only session that ever had a state, and removes it, so
// that one request continues the session. It returns false if another session had the
// state, too, the session has another state now, or it is of another agent.
func (t *Table) Take(seen, chat State, agent string) (Mark, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[place{seen, chat}]
	if g == nil || g.several {
		return Mark{}, false
	}
	return t.take(g.session, func(m *Mark) bool { return m.Seen == seen && m.Chat == chat && m.Agent == agent })
}

// TakeSession removes and returns the mark of a session, if it is acceptable.
func (t *Table) TakeSession(session string, accept func(*Mark) bool) (Mark, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.take(session, accept)
}

func (t *Table) take(session string, accept func(*Mark) bool) (Mark, bool) {
	m := t.newest[session]
	if m == nil || !accept(m) {
		return Mark{}, false
	}
	delete(t.newest, session)
	return *m, true
}

// Ask records a request before its run. If it has Once, Asked finds it.
func (t *Table) Ask(m Mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ask(&m)
}

func (t *Table) ask(m *Mark) {
	if m.Once {
		t.record([2]string{m.Owner, m.Request}, m)
	}
}

func (t *Table) record(key [2]string, m *Mark) {
	if _, known := t.asked[key]; !known {
		t.order = append(t.order, key)
	}
	t.asked[key] = *m
	for ; len(t.order) > maxMarks; t.order = t.order[1:] {
		delete(t.asked, t.order[0])
	}
}

// Asked returns the record of an earlier request.
func (t *Table) Asked(owner, request string) (Mark, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, ok := t.asked[[2]string{owner, request}]
	return m, ok
}

// Fail records a request without Once whose run has no answer.
func (t *Table) Fail(m Mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Once {
		return
	}
	if old, ok := t.asked[m.failed()]; ok && old.Request != m.Request {
		old.Request = "" // several clients sent the messages
		m = old
	}
	t.record(m.failed(), &m)
}

// TakeFailed removes and returns the record of the only failed request that had the
// messages of m. If session is not empty, the record must be of this session.
func (t *Table) TakeFailed(m Mark, session string) (Mark, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.asked[m.failed()]
	if old.Request == "" || m.Once || session != "" && session != old.Session {
		return Mark{}, false
	}
	delete(t.asked, m.failed())
	return old, true
}

// failed returns a key of [Table.asked] that no request has.
func (m *Mark) failed() [2]string {
	return [2]string{m.Owner + "\n" + m.Agent, string(m.Asked[:]) + string(m.Chat[:])}
}

// Put adds the mark of an answer, which replaces the one of its session.
func (t *Table) Put(m Mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(&m)
	err := t.file.Append(&m)
	if err == nil && t.file.Lines() > 2*maxMarks {
		err = t.file.Replace(t.all())
	}
	t.err = cmp.Or(t.err, err)
}

func (t *Table) all() iter.Seq[Mark] {
	return func(yield func(Mark) bool) {
		for _, m := range t.marks {
			if !yield(*m) {
				return
			}
		}
	}
}

func (t *Table) put(m *Mark) {
	at := place{m.Seen, m.Chat}
	g := t.groups[at]
	if g == nil {
		g = &group{session: m.Session}
		t.groups[at] = g
	}
	g.several = g.several || g.session != m.Session
	g.marks++
	t.marks = append(t.marks, m)
	t.newest[m.Session] = m
	t.ask(m)
	if n := len(t.marks) - maxMarks; n > 0 {
		for _, old := range t.marks[:n] {
			t.remove(old)
		}
		t.marks = t.marks[n:]
	}
}

// remove drops the oldest mark. Its state stays that of several sessions until all of
// their marks are forgotten.
func (t *Table) remove(m *Mark) {
	at := place{m.Seen, m.Chat}
	if g := t.groups[at]; g.marks > 1 {
		g.marks--
	} else {
		delete(t.groups, at)
	}
	if t.newest[m.Session] == m {
		delete(t.newest, m.Session)
	}
}
