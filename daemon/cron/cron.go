// Package cron manages the table of scheduled entries: crons.toml in the home,
// one [[cron]] per entry. It returns the next due time of an entry; package
// daemon runs the entries.
//
// The file has the reference's format and additional keys. A Table skips an
// invalid entry with a warning that contains its line. The entry stays in the
// file unchanged, with every comment, until a user edits it.
package cron

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"crabmem/crmem/vfs"
)

const (
	maxFile    = 1 << 20
	maxEntries = 1000
	maxEntry   = 128 << 10 // bytes; every character of args may be written as six
)

// Cron is one entry.
type Cron struct {
	ID       uint64
	Schedule string // see Next
	Skill    string // its name, without a slash; "" if Prompt is set
	Args     string // text after the name
	Prompt   string // the message, which names no skill; "" if Skill is set
	// Session is the ID of a session in the daemon that wrote it. After a
	// restart only SessionFile identifies the session.
	Session     uint64
	SessionFile string // the session's id in its folder, which a new title does not change; or NewSession
	QuietStart  string // HH:MM; "" = none
	QuietEnd    string
	Once        bool
	Timezone    string // as in "Europe/Berlin"; "" is the machine's
	Approve     string // AllowedOnly, AnyCommand, or "", which is AllowedOnly
	Failures    int    // in a row
	Agent       string // of new sessions; "" is the default agent
	Timeout     string // as in "30m"; "" is DefaultTimeout
	// Sender is the identity of the runs of an entry that a tool made, and Scope is what
	// the run that called the tool could do, as JSON. Both bound the entry's runs. Origin is
	// the scope of that run's identities, as JSON. It bounds the work that the entry's runs give to
	// other agents. If Origin is empty, Scope bounds that work.
	Sender string
	Scope  string
	Origin string
	// Deliver is the conversation that receives the texts of the runs; "": none does. Wake
	// adds them to the conversation's session.
	Deliver string
	Wake    bool
	// Workspace is the path of the workspace that has the entry, and Name its name there. Such an
	// entry is in no table.
	Workspace, Name string
}

// MaxFailures in a row stop an entry until its schedule changes, it is recreated, or the
// configuration is reloaded.
const MaxFailures = 3

// DefaultTimeout limits the runs of an entry without a time-out.
const DefaultTimeout = 10 * time.Minute

const maxTimeout = 24 * time.Hour

// Limit returns a run's time limit.
func (c *Cron) Limit() time.Duration {
	if d, err := time.ParseDuration(c.Timeout); err == nil {
		return d
	}
	return DefaultTimeout
}

// Message returns the message that a run sends.
func (c *Cron) Message() string {
	if c.Prompt != "" {
		return c.Prompt
	}
	return strings.TrimSuffix("/"+c.Skill+" "+c.Args, " ")
}

const (
	// AllowedOnly is the value of Cron.Approve for an entry whose runs refuse commands
	// that need approval.
	AllowedOnly = "allowlist"
	// AnyCommand is the value of Cron.Approve for an entry whose runs need no approval.
	// Only a person writes it, in the file.
	AnyCommand = "off"
)

// NewSession is the value of Cron.SessionFile for an entry whose runs each get a new
// session. No session has this ID.
const NewSession = "new"

// A Warning is about a part of the file that is not used.
type Warning struct {
	Path    string
	Line    int
	Message string
}

func (w Warning) String() string { return fmt.Sprintf("%s:%d: %s", w.Path, w.Line, w.Message) }

// InvalidError is returned for an entry that cannot be one.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return e.Reason }

func invalid(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// NotFoundError is returned for an id that no entry has.
type NotFoundError struct{ ID uint64 }

func (e *NotFoundError) Error() string { return fmt.Sprintf("cron %d not found", e.ID) }

// Table is the entries of one file. Its methods may be called at the same time.
// Create, Delete, Bind, and Reload read changes that a user made to the file and
// never overwrite them.
type Table struct {
	fsys vfs.FS
	path string

	mu   sync.Mutex
	text string // of the file, as parsed
	file parsed
	last uint64 // greatest id that was ever seen
}

// Open reads a table. A file that is missing is an empty one, and one that
// cannot be read, or has more than 1 MiB, is an error.
func Open(fsys vfs.FS, path string) (*Table, error) {
	t := &Table{fsys: fsys, path: path}
	return t, t.refresh()
}

// Reload reads the file again. On an error the table is as it was.
func (t *Table) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refresh()
}

func (t *Table) refresh() error {
	b, err := vfs.ReadFile(t.fsys, t.path, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text := string(b); text != t.text {
		t.adopt(text)
	}
	return nil
}

// adopt replaces the table with the content of the file. Entries keep their
// bound sessions.
func (t *Table) adopt(text string) {
	next := parse(t.path, text)
	for i := range next.entries {
		e := &next.entries[i]
		if old := t.file.find(e.cron.ID); e.warning == "" && old != nil && old.cron.SessionFile == e.cron.SessionFile {
			e.cron.Session = old.cron.Session
		}
	}
	t.text, t.file = text, next
	t.last = max(t.last, next.greatest())
}

// replace writes the file. On an error it changes nothing.
func (t *Table) replace(next parsed) error {
	text := next.text()
	if len(text) > maxFile {
		return fmt.Errorf("%s would have %d bytes, more than the limit of %d: remove entries first", t.path, len(text), maxFile)
	}
	err := vfs.WriteFile(t.fsys, t.path, 0o600, []byte(text))
	if err != nil {
		return fmt.Errorf("failed to write %s: %w", t.path, err)
	}
	t.adopt(text)
	return nil
}

// Create adds an entry and returns it with its id: one more than the greatest
// there was since the table was opened.
func (t *Table) Create(c Cron) (Cron, error) {
	if err := c.Check(); err != nil {
		return Cron{}, err
	}
	if err := c.checkFires(); err != nil {
		return Cron{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		return Cron{}, err
	}
	if len(t.file.entries) >= maxEntries {
		return Cron{}, invalid("there are %d cron entries already: delete some first", len(t.file.entries))
	}
	if t.last >= math.MaxInt64 {
		return Cron{}, invalid("%s: an entry has the largest possible ID: remove that entry and restart the daemon", t.path)
	}
	c.ID = t.last + 1
	if n := len(c.encode()); n > maxEntry {
		return Cron{}, invalid("the entry has %d bytes, more than the limit of %d", n, maxEntry)
	}
	next := t.file.clone()
	next.entries = append(next.entries, entry{text: gap(t.text) + c.encode(), cron: c})
	if err := t.replace(next); err != nil {
		return Cron{}, err
	}
	return c, nil
}

// Delete removes an entry, and the comment above it.
func (t *Table) Delete(id uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.find(id); err != nil {
		return err
	}
	next := t.file.clone()
	next.entries = slices.DeleteFunc(next.entries, func(e entry) bool { return e.warning == "" && e.cron.ID == id })
	return t.replace(next)
}

// Bind binds an entry to a session. It writes the file only if the session's
// file is new, because the number is valid only in this daemon.
func (t *Table) Bind(id, session uint64, file string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, err := t.find(id)
	if err != nil {
		return err
	}
	if e.cron.SessionFile == file {
		e.cron.Session = session
		return nil
	}
	c := e.cron
	c.Session, c.SessionFile = session, file
	if err := c.Check(); err != nil {
		return err
	}
	return t.change(c, e.above()+c.encode()+e.below())
}

// SetFailures writes how often an entry failed in a row.
func (t *Table) SetFailures(id uint64, n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, err := t.find(id)
	if err != nil {
		return err
	}
	if e.cron.Failures == n {
		return nil
	}
	c := e.cron
	c.Failures = n
	return t.change(c, e.withFailures(c))
}

// find reads the file if it changed, and returns an entry. The caller holds mu.
func (t *Table) find(id uint64) (*entry, error) {
	if err := t.refresh(); err != nil {
		return nil, err
	}
	if e := t.file.find(id); e != nil {
		return e, nil
	}
	return nil, &NotFoundError{id}
}

// change replaces an entry and its text. The caller holds mu.
func (t *Table) change(c Cron, text string) error {
	next := t.file.clone()
	e := next.find(c.ID)
	e.text, e.cron = text, c
	return t.replace(next)
}

// List returns the entries by id.
func (t *Table) List() []Cron {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []Cron
	for _, e := range t.file.entries {
		if e.warning == "" {
			list = append(list, e.cron)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	return list
}

// Warnings returns the problems of unused parts of the file.
func (t *Table) Warnings() []Warning {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.file.warnings)
}
