package sessioncrash

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/sessionlog"
)

const (
	dir    = "/home/sessions"
	sector = 512
	stamp  = "2026-04-14T12:00:00+00:00"
)

var noon = time.Date(2026, 4, 14, 12, 0, 0, 0, time.UTC)

// actor is a process that uses the folder, and the world as it must be by the
// answers the process got.
type actor struct {
	w       *world
	m       *vfs.Mem
	d       *sessionlog.Dir
	cur     *session // that most symbols are about; nil = none
	maxOpen int
	logs    map[string]*sessionlog.Log
	warned  []string
	tainted func() bool     // a call was made to fail: an error needs no other reason
	others  []*actor        // that may have sessions open, of the same world
	stopped map[string]bool // sessions that were told an outcome that is unknown, until they are opened again
	wrote   map[string]int  // how many lines a session had when this process last wrote to it
	dead    bool            // there is no folder to go on with
	classes map[error]int
}

func newActor(w *world, m *vfs.Mem, maxOpen int) *actor {
	return &actor{w: w, m: m, maxOpen: maxOpen, logs: map[string]*sessionlog.Log{}, stopped: map[string]bool{}, wrote: map[string]int{},
		classes: map[error]int{}, tainted: func() bool { return false }}
}

func openDir(m *vfs.Mem, maxOpen int, warned *[]string) (*sessionlog.Dir, error) {
	return sessionlog.OpenDir(dir, &sessionlog.Options{FS: m, MaxOpen: maxOpen, Command: "fuzz", Now: func() time.Time { return noon },
		Warn: func(s string) { *warned = append(*warned, s) }})
}

func (a *actor) open() (err error) {
	a.d, err = openDir(a.m, a.maxOpen, &a.warned)
	return err
}

// answers are the classes of errors that state the outcome of a write.
var answers = []error{sessionlog.ErrUnknown, sessionlog.ErrStopped, sessionlog.ErrNotApplied, vfs.ErrLocked}

func class(err error) error {
	for _, c := range answers {
		if errors.Is(err, c) {
			return c
		}
	}
	return err
}

// excused reports whether an error has a cause: of opening, or of a session.
func (a *actor) excused(s *session, err error) bool {
	switch {
	case a.tainted():
		return true
	case errors.Is(err, vfs.ErrLocked):
		return slices.ContainsFunc(a.others, func(o *actor) bool { return o.logs[s.id] != nil })
	case errors.Is(err, sessionlog.ErrNotFound) && s.trash:
		s.live = false // of a move that failed nobody knew
		return true
	}
	return false
}

// log returns an open session. Opening it determines its content.
func (a *actor) log(s *session) (*sessionlog.Log, error) {
	if l := a.logs[s.id]; l != nil {
		if !s.vague || a.stopped[s.id] {
			return l, nil
		}
		if err := a.give(s); err != nil {
			return nil, err
		}
	}
	l, err := a.d.Open(s.id)
	if err != nil {
		return nil, err
	}
	if !s.live {
		return nil, wrong("%s was opened, and it is in the trash", s.id)
	}
	a.logs[s.id] = l
	s.live, s.trash = true, false
	return l, a.opened(s)
}

// opened compares the content of a session's file with the acknowledged lines.
// From here on the content counts as acknowledged.
func (a *actor) opened(s *session) error {
	peek := a.m.Kill() // no hook sees it
	for _, n := range s.names {
		b, err := vfs.ReadFile(peek, dir+"/"+n.name, 1<<30)
		if err != nil {
			continue
		}
		k := s.prefix(sumOf(string(b)))
		if k < max(1, s.acked) {
			return wrong("%s was opened with %d bytes, %d lines; %d were acknowledged, %d issued", n.name, len(b), k, s.acked, len(s.lines))
		}
		s.cut(k)
		s.must, s.acked, s.durable, s.vague = true, k, k, false
		delete(a.stopped, s.id)
		return nil
	}
	return wrong("%s was opened, and has none of the names %v", s.id, s.names)
}

// begin opens a session to write to; nil when that failed, and may.
func (a *actor) begin(s *session) (*sessionlog.Log, error) {
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

// write issues lines and takes the answer to them.
func (a *actor) write(s *session, durable bool, lines []string, call func(*sessionlog.Log) error) error {
	l, err := a.begin(s)
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
	return a.answer(s, n, durable, func() error { return call(l) })
}

// answer makes a call that wrote the lines from the n-th on.
func (a *actor) answer(s *session, n int, durable bool, call func() error) error {
	err := call()
	a.classes[class(err)]++
	switch {
	case err == nil:
		if a.stopped[s.id] {
			return wrong("%s: acknowledged after an outcome that was unknown", s.id)
		}
		s.acked, s.batch = len(s.lines), 0
		if n < len(s.lines) {
			a.wrote[s.id] = s.acked
		}
		if durable {
			s.durable = max(s.durable, min(a.wrote[s.id], s.acked))
		}
	case errors.Is(err, sessionlog.ErrUnknown):
		if !a.tainted() {
			return wrong("%s: %v", s.id, err)
		}
		a.stopped[s.id], s.vague = true, true
	default:
		s.cut(n)
		if !a.excused(s, err) {
			return wrong("%s: %v", s.id, err)
		}
		stopped := errors.Is(err, sessionlog.ErrStopped)
		if a.stopped[s.id] && !stopped {
			return wrong("%s: %v after an outcome that was unknown", s.id, err)
		}
		a.stopped[s.id] = stopped // it was told what became of the files when they were closed for others
	}
	return nil
}

// alphabet of the enumeration.
var alphabet = []string{"create", "user", "step", "result", "answer", "turn", "compact", "title", "retitle", "uptime",
	"sync", "reopen", "delete", "restore", "import", "repair"}

// applies reports whether a symbol has an effect: a session exists, or the
// symbol needs none.
func (a *actor) applies(symbol string) bool {
	switch symbol {
	case "create", "import":
		return true
	case "repair":
		return len(a.w.sessions) > 0 // a folder is there
	}
	return a.cur != nil
}

// do executes one symbol of the alphabet. It returns an error for a violation,
// not for a call that may fail.
func (a *actor) do(symbol string) error {
	s := a.cur
	switch symbol {
	case "title", "retitle", "uptime", "compact":
		// Opening it tells what title and run time it has.
		if l, err := a.begin(s); l == nil {
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
	}
	var ms []sessionlog.Message
	switch symbol {
	case "user":
		// Up to the end of a sector: a tear may take the \n alone.
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

// call is an assistant's message with a tool call.
func (a *actor) call(s *session, n int) sessionlog.Message {
	text := a.w.content(n)
	id := fmt.Sprint("call ", a.w.serial)
	s.calls = append(s.calls, id)
	return sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{ID: id, Type: "function", Function: sessionlog.Function{Name: "bash", Arguments: text}}}}
}

// results answers the pending calls, and at least one that does not exist.
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

// titles and their forms in file names.
var titles = [][2]string{{"Which port", "which-port"}, {"Ünter Deck: 2", "Ünter-deck-2"}, {"", ""}}

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
		s.loose = s.loose || len(a.warned) > warned
		if err == nil && !s.loose {
			s.name = before
		}
		return err
	})
}

func (a *actor) record(s *session, durable bool, title string, uptime uint64, call func(*sessionlog.Log) error) error {
	l, err := a.begin(s)
	if l == nil {
		return err
	}
	n := len(s.lines)
	s.push(recordText(title, uptime), title, uptime)
	return a.answer(s, n, durable, func() error { return call(l) })
}

const prefix = "crab_user_"

// create makes a session, which becomes the current one.
func (a *actor) create() error {
	top := 0
	var maybe []*session
	for _, s := range a.w.sessions {
		if n, ok := strings.CutPrefix(s.id, prefix); ok {
			var seq int
			fmt.Sscan(n, &seq)
			top = max(top, seq)
			if !s.must {
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
			// One of which no answer told may not have come to be.
			i := slices.IndexFunc(maybe, func(m *session) bool { return m.id == l.ID() })
			if i < 0 {
				return wrong("%s was created, want %s", l.ID(), s.id)
			}
			a.w.remove(s)
			s = maybe[i]
		}
		s.must, s.acked, s.durable = true, 1, 1
		delete(a.wrote, s.id)
		a.logs[s.id] = l
		a.cur = s
		return nil
	case !a.tainted():
		return wrong("create: %v", err)
	case errors.Is(err, sessionlog.ErrNotApplied):
		a.w.remove(s)
	}
	return nil
}

// imports imports a transcript that has grown by so many messages.
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
	names := s.versions
	s.must, s.versions = true, []version{v}
	if len(a.warned) > warned { // it was told why it has another name
		for _, old := range names {
			s.versions = append(s.versions, version{old.name, v.text})
		}
	}
	return nil
}

// hurtText is a file that needs a repair, and its form after the repair.
func hurtText(seq int) (hurt, mended string) {
	lines := []string{
		metaText("hurt", "user", "", ""),
		messageText(sessionlog.Message{Role: "user", Content: strings.Repeat(fmt.Sprintf("hurt %d. ", seq), 300)}),
		"\x00\x00\x00", `{"role":"user","con`,
		messageText(sessionlog.Message{Role: "user", Content: strings.Repeat("glued. ", 100)}),
		messageText(sessionlog.Message{Role: "assistant", Content: strings.Repeat("last. ", 500)}),
		`{"role":"user","content":"to`,
	}
	hurt = lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n" + lines[3] + lines[4] + "\n" + lines[5] + "\n" + lines[6]
	return hurt, lines[0] + "\n" + lines[1] + "\n" + lines[4] + "\n" + lines[5] + "\n"
}

// repair puts a damaged file into the folder and repairs it.
func (a *actor) repair() error {
	_, seen := a.m.Kill().Lstat(dir)
	if _, kept := a.m.Crash().Lstat(dir); seen != nil || kept != nil {
		return nil // there may be no folder
	}
	seq := 1
	for a.w.find(fmt.Sprint("hurt_user_", seq)) != nil {
		seq++
	}
	id := fmt.Sprint("hurt_user_", seq)
	hurt, mended := hurtText(seq)
	s := &session{id: id, must: true, live: true, versions: []version{{id + ".jsonl", hurt}, {id + ".jsonl", mended}}}
	a.w.sessions = append(a.w.sessions, s)
	a.m.WriteFile(dir+"/"+id+".jsonl", []byte(hurt), 0o600)
	did, err := a.d.Repair(id)
	a.classes[class(err)]++
	if err != nil {
		if !a.excused(s, err) {
			return wrong("repair: %v", err)
		}
		return nil
	}
	if did.Dropped != 2 || did.Unglued != 1 {
		return wrong("repair says %+v", did)
	}
	s.versions = s.versions[1:]
	return nil
}

// give closes a session, if it is open.
func (a *actor) give(s *session) error {
	l := a.logs[s.id]
	if l == nil {
		return nil
	}
	delete(a.logs, s.id)
	if err := l.Close(); err == nil {
		if !a.stopped[s.id] { // of which it was told before
			s.durable = max(s.durable, min(a.wrote[s.id], s.acked))
		}
	} else if !a.tainted() {
		return wrong("close %s: %v", s.id, err)
	}
	return nil
}

func (a *actor) reopen() error {
	for _, s := range a.w.sessions {
		if err := a.give(s); err != nil {
			return err
		}
	}
	clear(a.logs)
	if !a.dead {
		if err := a.d.Close(); err != nil && !a.tainted() {
			return wrong("close: %v", err)
		}
	}
	a.dead = false
	if err := a.open(); err != nil {
		if !a.tainted() {
			return wrong("open: %v", err)
		}
		a.dead = true
		return nil
	}
	if a.cur == nil {
		return nil
	}
	_, err := a.begin(a.cur)
	return err
}

func (a *actor) sync() error {
	for _, s := range a.w.sessions {
		if l := a.logs[s.id]; l != nil {
			if err := a.answer(s, len(s.lines), true, l.Sync); err != nil {
				return err
			}
		}
	}
	return nil
}

// move moves a session into the trash, or back.
func (a *actor) move(s *session, away bool) error {
	if away {
		if err := a.give(s); err != nil {
			return err
		}
	}
	live, trash := s.live, s.trash
	s.live, s.trash = true, true
	var err error
	if away {
		err = a.d.Delete(s.id)
	} else {
		err = a.d.Restore(s.id)
	}
	a.classes[class(err)]++
	from := live
	if !away {
		from = trash
	}
	switch {
	case err == nil:
		if !from {
			return wrong("%s was moved from where it was not", s.id)
		}
		s.live, s.trash, s.adrift = !away, away, false
	case errors.Is(err, vfs.ErrLocked), errors.Is(err, sessionlog.ErrNotApplied):
		s.live, s.trash = live, trash
		if !a.excused(s, err) {
			return wrong("move %s: %v", s.id, err)
		}
	case a.tainted():
		s.live, s.trash = live || !away, trash || away
		s.adrift = s.adrift || errors.Is(err, sessionlog.ErrUnknown)
	default:
		s.live, s.trash = live, trash
		if live && trash && errors.Is(err, sessionlog.ErrNotFound) {
			s.live, s.trash = !away, away // of a move that failed nobody knew
			return nil
		}
		if from || !errors.Is(err, sessionlog.ErrNotFound) && !errors.Is(err, sessionlog.ErrExists) {
			return wrong("move %s: %v", s.id, err)
		}
	}
	return nil
}
