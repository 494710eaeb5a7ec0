package sessioncrash

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const (
	dir    = "/home/sessions"
	sector = 512
	stamp  = "2026-04-14T12:00:00+00:00"
)

var noon = time.Date(2026, 4, 14, 12, 0, 0, 0, time.UTC)

// actor is a process that uses the folder. It updates the world from the results
// of its calls.
type actor struct {
	w       *world
	m       *faultfs.Mem
	d       *sessionlog.Dir
	cur     *session // the session that most symbols use; nil: no session
	maxOpen int
	logs    map[string]*sessionlog.Log // open sessions, by ID
	warned  []string
	faulted func() bool     // reports whether a fault was injected, which explains any error
	others  []*actor        // other processes of the same world
	stopped map[string]bool // sessions with an unknown outcome, until they are reopened
	wrote   map[string]int  // number of lines after the last write of this process, by session ID
	dead    bool            // the folder could not be reopened
	classes map[error]int   // number of results, by class
}

func newActor(w *world, m *faultfs.Mem, maxOpen int) *actor {
	return &actor{w: w, m: m, maxOpen: maxOpen, logs: map[string]*sessionlog.Log{}, stopped: map[string]bool{}, wrote: map[string]int{},
		classes: map[error]int{}, faulted: func() bool { return false }}
}

func openDir(m *faultfs.Mem, maxOpen int, warned *[]string) (*sessionlog.Dir, error) {
	return sessionlog.OpenDir(dir, &sessionlog.Options{FS: m, MaxOpen: maxOpen, Command: "fuzz", Now: func() time.Time { return noon },
		Warn: func(s string) { *warned = append(*warned, s) }})
}

func (a *actor) open() (err error) {
	a.d, err = openDir(a.m, a.maxOpen, &a.warned)
	return err
}

// outcomes are the classes of errors that state the outcome of a write.
var outcomes = []error{sessionlog.ErrUnknown, sessionlog.ErrStopped, sessionlog.ErrNotApplied, vfs.ErrLocked}

// class returns the class of an error, or the error if it has no class.
func class(err error) error {
	for _, c := range outcomes {
		if errors.Is(err, c) {
			return c
		}
	}
	return err
}

// excused reports whether an error has a legitimate cause: a fault, a lock that
// another process holds, or a session in the trash.
func (a *actor) excused(s *session, err error) bool {
	switch {
	case a.faulted():
		return true
	case errors.Is(err, vfs.ErrLocked):
		return slices.ContainsFunc(a.others, func(o *actor) bool { return o.logs[s.id] != nil })
	case errors.Is(err, sessionlog.ErrNotFound) && s.trash:
		s.live = false // the failed move took effect
		return true
	}
	return false
}

// log returns the open log of a session. It opens the session if necessary, and
// the content at that time becomes the expected content.
func (a *actor) log(s *session) (*sessionlog.Log, error) {
	if l := a.logs[s.id]; l != nil {
		if !s.unknown || a.stopped[s.id] {
			return l, nil
		}
		if err := a.closeLog(s); err != nil {
			return nil, err
		}
	}
	l, err := a.d.Open(s.id)
	if err != nil {
		return nil, err
	}
	if !s.live {
		return nil, wrong("opened %s, which is in the trash", s.id)
	}
	a.logs[s.id] = l
	s.live, s.trash = true, false
	return l, a.opened(s)
}

// opened compares the file of a newly opened session with the acknowledged lines.
// The content then counts as acknowledged.
func (a *actor) opened(s *session) error {
	peek := a.m.Kill() // the copy has no hook
	for _, n := range s.names {
		b, err := vfs.ReadFile(peek, dir+"/"+n.name, 1<<30)
		if err != nil {
			continue
		}
		k := s.prefix(sumOf(string(b)))
		if k < max(1, s.acked) {
			return wrong("opened %s with %d bytes, %d lines; acknowledged: %d, issued: %d", n.name, len(b), k, s.acked, len(s.lines))
		}
		s.cut(k)
		s.created, s.acked, s.durable, s.unknown = true, k, k, false
		delete(a.stopped, s.id)
		return nil
	}
	return wrong("opened %s, but no file has one of the names %v", s.id, s.names)
}

// tryOpen opens a session for writing. It returns a nil log and a nil error if
// the open failed for a legitimate cause.
func (a *actor) tryOpen(s *session) (*sessionlog.Log, error) {
	l, err := a.log(s)
	if err == nil {
		return l, nil
	}
	if crashtest.IsWrong(err) {
		return nil, err
	}
	a.classes[class(err)]++
	if !a.excused(s, err) {
		return nil, wrong("open %s: %v", s.id, err)
	}
	return nil, nil
}

// write adds lines to the model, makes the call that writes them, and checks the
// result. durable states whether the call must sync.
func (a *actor) write(s *session, durable bool, lines []string, call func(*sessionlog.Log) error) error {
	l, err := a.tryOpen(s)
	if l == nil {
		return err
	}
	n := len(s.lines)
	for _, line := range lines {
		s.message(line)
	}
	if durable && len(lines) > 1 {
		s.batch = n
	}
	return a.apply(s, n, durable, func() error { return call(l) })
}

// apply makes a call that writes the lines from the n-th on, and updates the model
// with the result.
func (a *actor) apply(s *session, n int, durable bool, call func() error) error {
	err := call()
	a.classes[class(err)]++
	switch {
	case err == nil:
		if a.stopped[s.id] {
			return wrong("%s: write acknowledged after an unknown outcome", s.id)
		}
		s.acked, s.batch = len(s.lines), 0
		if n < len(s.lines) {
			a.wrote[s.id] = s.acked
		}
		if durable {
			s.durable = max(s.durable, min(a.wrote[s.id], s.acked))
		}
	case errors.Is(err, sessionlog.ErrUnknown):
		if !a.faulted() {
			return wrong("%s: %v", s.id, err)
		}
		a.stopped[s.id], s.unknown = true, true
	default:
		s.cut(n)
		if !a.excused(s, err) {
			return wrong("%s: %v", s.id, err)
		}
		stopped := errors.Is(err, sessionlog.ErrStopped)
		if a.stopped[s.id] && !stopped {
			return wrong("%s: %v after an unknown outcome", s.id, err)
		}
		a.stopped[s.id] = stopped // a failed sync during an eviction is reported here
	}
	return nil
}

// alphabet contains the symbols of the enumeration.
var alphabet = []string{"create", "user", "step", "result", "answer", "turn", "piece", "failure", "work", "compact", "tail", "title", "retitle", "uptime",
	"sync", "reopen", "delete", "restore", "import", "repair"}

// applies reports whether a symbol can run: it needs no session, or a session
// exists.
func (a *actor) applies(symbol string) bool {
	switch symbol {
	case "create", "import":
		return true
	case "repair":
		return len(a.w.sessions) > 0 // the folder exists
	}
	return a.cur != nil
}

// do executes one symbol. It returns an error for a violation, but not for a call
// that fails for a legitimate cause.
func (a *actor) do(symbol string) error {
	s := a.cur
	switch symbol {
	case "title", "retitle", "uptime", "compact", "tail":
		// An open determines the title and the run time.
		if l, err := a.tryOpen(s); l == nil {
			return err
		}
	}
	switch symbol {
	case "create":
		return a.create()
	case "import":
		return a.imports(1)
	case "again":
		return a.imports(0)
	case "repair":
		return a.repair()
	case "reopen":
		return a.reopen()
	case "sync":
		return a.sync()
	case "delete", "restore":
		return a.move(s, symbol == "delete")
	case "title", "retitle":
		return a.title(s, symbol == "title")
	case "uptime":
		return a.record(s, false, s.meta().Title, s.meta().UptimeSecs+7, func(l *sessionlog.Log) error { return l.AddUptime(7) })
	case "compact":
		summary := a.w.content(5000)
		m := s.meta()
		return a.write(s, true, []string{markerText(summary), recordText(m.Title, m.UptimeSecs)}, func(l *sessionlog.Log) error {
			return l.Compact(summary)
		})
	case "tail":
		return a.tail(s)
	case "piece":
		text := a.w.content(700)
		return a.write(s, false, []string{pieceText(text)}, func(l *sessionlog.Log) error { return l.AppendStreamed(text) })
	case "failure":
		text := a.w.content(200)
		return a.write(s, false, []string{failureText("model", text)}, func(l *sessionlog.Log) error { return l.AppendFailure("model", text) })
	}
	if symbol == "work" {
		text := a.w.content(900)
		return a.write(s, true, []string{resultText(text)}, func(l *sessionlog.Log) error {
			return l.AppendWork(record.Work{Op: record.WorkEnd, N: 1, State: record.Done, Reason: "outcome", Text: text})
		})
	}
	var ms []sessionlog.Message
	switch symbol {
	case "user":
		// The message fills a sector, so that a torn write can lose only the \n.
		m := sessionlog.Message{Role: "user", Content: a.w.content(6000)}
		m.Content += strings.Repeat(".", sector-(len(s.text)+len(messageText(m)))%sector)
		ms = []sessionlog.Message{m}
	case "step":
		ms = []sessionlog.Message{a.call(s, 700)}
	case "result":
		ms = append(a.results(s), a.call(s, 300))
	case "answer":
		ms = []sessionlog.Message{{Role: "assistant", Content: a.w.content(900)}}
	case "turn":
		ms = append(append(a.results(s), a.call(s, 3000), a.results(s)[0]), sessionlog.Message{Role: "assistant", Content: a.w.content(500)})
	default:
		return fmt.Errorf("no symbol %q", symbol)
	}
	durable := false
	var lines []string
	for _, m := range ms {
		lines = append(lines, messageText(m))
		durable = durable || m.Role == "user" || m.Role == "assistant" && len(m.ToolCalls) == 0
	}
	return a.write(s, durable, lines, func(l *sessionlog.Log) error { return l.Append(ms...) })
}

// tail compacts a session and keeps the last two messages of its context, or more if a
// call is before them.
func (a *actor) tail(s *session) error {
	l, err := a.tryOpen(s)
	if l == nil {
		return err
	}
	c, err := l.Context()
	if err != nil {
		if a.excused(s, err) {
			return nil
		}
		return wrong("context of %s: %v", s.id, err)
	}
	kept := c.Messages
	if c.Compacted {
		kept = kept[1:]
	}
	from := max(0, len(kept)-2)
	for from > 0 && kept[from].Role == record.RoleTool {
		from-- // to the call
	}
	kept = kept[from:]
	summary := a.w.content(1500)
	m := s.meta()
	lines := []string{keptText(summary, len(kept)), recordText(m.Title, m.UptimeSecs)}
	for _, m := range kept {
		lines = append(lines, strings.TrimSuffix(messageText(m), "}")+`,"again":true}`)
	}
	n := len(s.lines)
	for _, line := range lines {
		s.message(line)
	}
	s.tails[n] = flatten(kept)
	return a.apply(s, n, true, func() error { return l.Compact(summary, kept...) })
}

// call returns an assistant message with a tool call, which becomes pending.
func (a *actor) call(s *session, n int) sessionlog.Message {
	text := a.w.content(n)
	id := fmt.Sprint("call ", a.w.serial)
	s.calls = append(s.calls, id)
	return sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{ID: id, Type: "function", Function: sessionlog.Function{Name: "bash", Arguments: text}}}}
}

// results returns the results of the pending calls. If no call is pending, it
// returns the result of a call that does not exist.
func (a *actor) results(s *session) []sessionlog.Message {
	ids := s.calls
	if s.calls = nil; len(ids) == 0 {
		ids = []string{"nobody's"}
	}
	var ms []sessionlog.Message
	for _, id := range ids {
		ms = append(ms, sessionlog.Message{Role: "tool", ToolCallID: id, Content: a.w.content(4500)})
	}
	return ms
}

// titles are titles and their slugs in file names.
var titles = [][2]string{{"Which port", "which-port"}, {"Ünter Deck: 2", "Ünter-deck-2"}, {"", ""}}

// title sets titles[0] if first is true, else one of the other titles.
func (a *actor) title(s *session, first bool) error {
	t := titles[0]
	if !first {
		t = titles[1+a.w.serial%2]
	}
	return a.record(s, true, t[0], s.meta().UptimeSecs, func(l *sessionlog.Log) error {
		warned, before := len(a.warned), len(s.names)
		n := len(s.lines)
		name := s.id + ".jsonl"
		if t[1] != "" {
			name = s.id + "_" + t[1] + ".jsonl"
		}
		s.names = append(s.names, named{n - 1, name})
		err := l.SetTitle(t[0])
		s.anyName = s.anyName || len(a.warned) > warned
		if err == nil && !s.anyName {
			s.name = before
		}
		return err
	})
}

// record makes a call that writes one meta record.
func (a *actor) record(s *session, durable bool, title string, uptime uint64, call func(*sessionlog.Log) error) error {
	l, err := a.tryOpen(s)
	if l == nil {
		return err
	}
	n := len(s.lines)
	s.push(recordText(title, uptime), title, uptime)
	return a.apply(s, n, durable, func() error { return call(l) })
}

const prefix = "crab_user_"

// create creates a session and makes it the current one.
func (a *actor) create() error {
	top := 0
	var maybe []*session
	for _, s := range a.w.sessions {
		if n, ok := strings.CutPrefix(s.id, prefix); ok {
			var seq int
			fmt.Sscan(n, &seq)
			top = max(top, seq)
			if !s.created {
				maybe = append(maybe, s)
			}
		}
	}
	s := newSession(fmt.Sprint(prefix, top+1), metaText("crab", "user", "", ""))
	a.w.sessions = append(a.w.sessions, s)
	l, err := a.d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	a.classes[class(err)]++
	switch {
	case err == nil:
		if l.ID() != s.id {
			// A session without an acknowledged creation may not exist, so its ID is
			// free.
			i := slices.IndexFunc(maybe, func(m *session) bool { return m.id == l.ID() })
			if i < 0 {
				return wrong("created %s, want %s", l.ID(), s.id)
			}
			a.w.remove(s)
			s = maybe[i]
		}
		s.created, s.acked, s.durable = true, 1, 1
		delete(a.wrote, s.id)
		a.logs[s.id] = l
		a.cur = s
		return nil
	case !a.faulted():
		return wrong("create: %v", err)
	case errors.Is(err, sessionlog.ErrNotApplied):
		a.w.remove(s)
	}
	return nil
}

// imports imports a transcript that has grown by the given number of messages.
func (a *actor) imports(more int) error {
	const id = "other_user_1"
	s := a.w.find(id)
	if s == nil {
		s = &session{id: id, source: "x 1", live: true}
		a.w.sessions = append(a.w.sessions, s)
		more = 1
	}
	a.w.imports += more
	title := titles[a.w.imports%3]
	m := sessionlog.Meta{Agent: "other", CreatedBy: "user", CreatedAt: stamp, Title: title[0], Source: s.source}
	v := version{name: id + ".jsonl", text: metaText("other", "user", title[0], s.source) + "\n"}
	if title[1] != "" {
		v.name = id + "_" + title[1] + ".jsonl"
	}
	var items []sessionlog.Item
	for i := range a.w.imports {
		message := sessionlog.Message{Role: "user", Content: strings.Repeat(fmt.Sprintf("imported %d. ", i), 150)}
		items = append(items, sessionlog.Item{Message: message})
		v.text += messageText(message) + "\n"
	}
	if !slices.Contains(s.versions, v) {
		s.versions = append(s.versions, v)
	}
	warned := len(a.warned)
	got, _, err := a.d.Import(m, items)
	a.classes[class(err)]++
	if err != nil {
		if !a.excused(s, err) && !(errors.Is(err, vfs.ErrLocked) && len(a.others) > 0) {
			return wrong("import: %v", err)
		}
		return nil
	}
	if got != id {
		return wrong("imported as %s, want %s", got, id)
	}
	previous := s.versions
	s.created, s.versions = true, []version{v}
	if len(a.warned) > warned { // the file may keep an earlier name
		for _, old := range previous {
			s.versions = append(s.versions, version{old.name, v.text})
		}
	}
	return nil
}

// damagedText returns a damaged file and its content after a repair.
func damagedText(seq int) (damaged, repaired string) {
	lines := []string{
		metaText("hurt", "user", "", ""),
		messageText(sessionlog.Message{Role: "user", Content: strings.Repeat(fmt.Sprintf("hurt %d. ", seq), 300)}),
		"\x00\x00\x00", `{"role":"user","con`,
		messageText(sessionlog.Message{Role: "user", Content: strings.Repeat("glued. ", 100)}),
		messageText(sessionlog.Message{Role: "assistant", Content: strings.Repeat("last. ", 500)}),
		`{"role":"user","content":"to`,
	}
	damaged = lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n" + lines[3] + lines[4] + "\n" + lines[5] + "\n" + lines[6]
	return damaged, lines[0] + "\n" + lines[1] + "\n" + lines[4] + "\n" + lines[5] + "\n"
}

// repair writes a damaged file to the folder and repairs it.
func (a *actor) repair() error {
	_, seen := a.m.Kill().Lstat(dir)
	if _, kept := a.m.Crash().Lstat(dir); seen != nil || kept != nil {
		return nil // a crash may remove the folder
	}
	seq := 1
	for a.w.find(fmt.Sprint("hurt_user_", seq)) != nil {
		seq++
	}
	id := fmt.Sprint("hurt_user_", seq)
	damaged, repaired := damagedText(seq)
	s := &session{id: id, created: true, live: true, versions: []version{{id + ".jsonl", damaged}, {id + ".jsonl", repaired}}}
	a.w.sessions = append(a.w.sessions, s)
	a.m.WriteFile(dir+"/"+id+".jsonl", []byte(damaged), 0o600)
	did, err := a.d.Repair(id)
	a.classes[class(err)]++
	if err != nil {
		if !a.excused(s, err) {
			return wrong("repair: %v", err)
		}
		return nil
	}
	if did.Dropped != 2 || did.Unglued != 1 {
		return wrong("repair returned %+v", did)
	}
	s.versions = s.versions[1:]
	return nil
}

// closeLog closes a session if it is open.
func (a *actor) closeLog(s *session) error {
	l := a.logs[s.id]
	if l == nil {
		return nil
	}
	delete(a.logs, s.id)
	if err := l.Close(); err == nil {
		if !a.stopped[s.id] { // a stopped session has reported its lost lines
			s.durable = max(s.durable, min(a.wrote[s.id], s.acked))
		}
	} else if !a.faulted() {
		return wrong("close %s: %v", s.id, err)
	}
	return nil
}

func (a *actor) reopen() error {
	for _, s := range a.w.sessions {
		if err := a.closeLog(s); err != nil {
			return err
		}
	}
	clear(a.logs)
	if !a.dead {
		if err := a.d.Close(); err != nil && !a.faulted() {
			return wrong("close: %v", err)
		}
	}
	a.dead = false
	if err := a.open(); err != nil {
		if !a.faulted() {
			return wrong("open: %v", err)
		}
		a.dead = true
		return nil
	}
	if a.cur == nil {
		return nil
	}
	_, err := a.tryOpen(a.cur)
	return err
}

func (a *actor) sync() error {
	for _, s := range a.w.sessions {
		if l := a.logs[s.id]; l != nil {
			if err := a.apply(s, len(s.lines), true, l.Sync); err != nil {
				return err
			}
		}
	}
	return nil
}

// move moves a session to the trash, or back.
func (a *actor) move(s *session, toTrash bool) error {
	if toTrash {
		if err := a.closeLog(s); err != nil {
			return err
		}
	}
	live, trash := s.live, s.trash
	s.live, s.trash = true, true
	var err error
	if toTrash {
		err = a.d.Delete(s.id)
	} else {
		err = a.d.Restore(s.id)
	}
	a.classes[class(err)]++
	from := live
	if !toTrash {
		from = trash
	}
	switch {
	case err == nil:
		if !from {
			return wrong("moved %s, which was not in the source folder", s.id)
		}
		s.live, s.trash, s.moveUnknown = !toTrash, toTrash, false
	case errors.Is(err, vfs.ErrLocked), errors.Is(err, sessionlog.ErrNotApplied):
		s.live, s.trash = live, trash
		if !a.excused(s, err) {
			return wrong("move %s: %v", s.id, err)
		}
	case a.faulted():
		s.live, s.trash = live || !toTrash, trash || toTrash
		s.moveUnknown = s.moveUnknown || errors.Is(err, sessionlog.ErrUnknown)
	default:
		s.live, s.trash = live, trash
		if live && trash && errors.Is(err, sessionlog.ErrNotFound) {
			s.live, s.trash = !toTrash, toTrash // the failed move took effect
			return nil
		}
		if from || !errors.Is(err, sessionlog.ErrNotFound) && !errors.Is(err, sessionlog.ErrExists) {
			return wrong("move %s: %v", s.id, err)
		}
	}
	return nil
}
