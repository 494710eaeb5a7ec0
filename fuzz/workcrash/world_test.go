package workcrash

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/work"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const (
	home     = "/home"
	sessions = home + "/sessions"
	marks    = home + "/work"
	parentID = "crab_user_1"
)

func wrong(format string, args ...any) error { return crashtest.Wrong(format, args...) }

// facts are what files state about work, one string for each. The value is true for
// facts that were acknowledged; others may be in the files.
type facts map[string]bool

// world is a home with a session that gives out work, and the facts about it.
type world struct {
	m     *faultfs.Mem
	h     *work.Home
	p     *work.Parent
	facts facts
	last  *work.Item // the work that symbols use
	count int        // operations
	owed  []string   // keys of acknowledged outcomes that are not delivered
}

func homeOf(m *faultfs.Mem) (*work.Home, error) {
	var ticks atomic.Int64
	now := func() time.Time {
		return time.Date(2026, 4, 14, 12, 0, 0, int(ticks.Add(1))*1e6, time.UTC)
	}
	d, err := sessionlog.OpenDir(sessions, &sessionlog.Options{FS: m, Now: now, Command: "fuzz"})
	return &work.Home{FS: m, Path: home, Sessions: d, Now: now}, err
}

// open starts the program: it recovers all work, or opens the session without work.
func (w *world) open(m *faultfs.Mem) (err error) {
	w.m, w.last = m, nil
	if w.h, err = homeOf(m); err != nil {
		return err
	}
	parents, _, err := w.h.Recover()
	if err != nil {
		return err
	}
	if len(parents) == 0 {
		if w.p, _, err = w.h.Open(parentID); err == nil && (w.p.Inbox() > 0 || len(w.p.Items()) > 0) {
			err = wrong("recovery did not find %d outcomes and %d items", w.p.Inbox(), len(w.p.Items()))
		}
		return err
	}
	w.p = parents[0]
	w.p.Tidy()
	items := w.p.Items()
	slices.SortFunc(items, func(a, b *work.Item) int { return strings.Compare(a.ID, b.ID) })
	if len(items) > 0 {
		w.last = items[len(items)-1]
	}
	return nil
}

// restart starts the program again. The facts of the files then count as acknowledged.
func (w *world) restart(m *faultfs.Mem) error {
	if err := w.open(m); err != nil {
		return err
	}
	all, err := w.compare()
	if err == nil {
		w.facts = all
	}
	return err
}

// begin returns a machine with a session, and in the scene used with work: one worker
// waits, one runs, a branch has ended, and a marker follows.
func begin(scene string) (*world, error) {
	w := &world{facts: facts{}}
	m := faultfs.NewMem()
	h, err := homeOf(m)
	if err != nil {
		return nil, err
	}
	l, err := h.Sessions.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if err == nil {
		err = errors.Join(l.Append(sessionlog.Message{Role: "user", Content: "go"}), l.Close())
	}
	if err == nil {
		err = w.open(m)
	}
	symbols := map[string][]string{"used": {"asks", "begin", "end", "deliver", "branch", "end", "worker", "begin", "compact"}}
	for _, symbol := range symbols[scene] {
		if err == nil {
			err = w.do(symbol)
		}
	}
	return w, err
}

var alphabet = []string{"worker", "branch", "asks", "begin", "end", "fail", "cancel", "close", "route", "take", "deliver", "compact", "full", "restart", "ask", "answer", "use", "poll"}

// applies reports whether a symbol can run: it needs no work, or work exists.
func (w *world) applies(symbol string) bool {
	if symbol == "answer" {
		return w.asker() != nil
	}
	if w.last == nil && slices.Contains([]string{"begin", "end", "fail", "cancel", "close", "route", "take", "ask", "use"}, symbol) {
		return false
	}
	return symbol != "deliver" && symbol != "full" || w.p.Inbox() > 0
}

// do executes a symbol. An error for a change of state that is not permitted is no
// violation.
func (w *world) do(symbol string) error {
	w.count++
	err := w.try(symbol)
	if errors.Is(err, work.ErrTransition) || errors.Is(err, work.ErrPending) {
		return nil
	}
	return err
}

func (w *world) try(symbol string) error {
	switch symbol {
	case "worker", "branch", "asks":
		return w.spawn(symbol)
	case "begin":
		_, err := w.last.Begin()
		return err
	case "end":
		return w.end(record.Done, work.Signaled)
	case "fail":
		return w.end(record.Failed, work.Exhausted)
	case "cancel":
		return w.end(record.Failed, work.Cancelled)
	case "close":
		return w.end(record.Done, work.Closed)
	case "route":
		return w.route()
	case "take":
		_, err := w.last.TakeRoutes()
		return err
	case "ask":
		return w.ask("ask "+w.last.ID, w.last)
	case "poll":
		return w.ask("ask parent", w.p)
	case "answer":
		return w.answer()
	case "use":
		return w.use()
	case "deliver":
		return w.deliver()
	case "full":
		return w.full()
	case "compact":
		l, err := w.h.Sessions.Open(parentID)
		if err == nil {
			err = errors.Join(l.Compact(strings.Repeat("summary ", 200)), l.Close())
		}
		return err
	case "restart":
		if err := errors.Join(w.p.Close(), w.h.Sessions.Close()); err != nil {
			return err
		}
		return w.restart(w.m)
	}
	return fmt.Errorf("no symbol %q", symbol)
}

// ack acknowledges facts that were possible.
func (w *world) ack(err error, keys ...string) error {
	for _, key := range keys {
		if err == nil {
			w.facts[key] = true
		}
	}
	return err
}

func (w *world) maybe(keys ...string) {
	for _, key := range keys {
		if !w.facts[key] {
			w.facts[key] = false
		}
	}
}

func (w *world) spawn(symbol string) error {
	kind := record.Worker
	if symbol == "branch" {
		kind = record.Branch
	}
	n := 1
	for w.facts["start "+record.WorkID(kind, n)] {
		n++
	}
	fact := "start " + record.WorkID(kind, n)
	w.maybe(fact)
	i, err := w.p.Spawn(work.Spawn{Kind: kind, Agent: "crab", Task: strings.Repeat("task ", 150), Interactive: symbol == "asks"})
	if err == nil {
		if i.ID != record.WorkID(kind, n) {
			return wrong("%s is the ID of a spawn, want %s", i.ID, record.WorkID(kind, n))
		}
		w.last = i
	}
	return w.ack(err, fact)
}

func (w *world) end(state, reason string) error {
	text := strings.Repeat(fmt.Sprint("result ", w.count, " "), 60)
	prefix := "end " + w.last.ID + "."
	n := 1
	for key := range w.facts {
		if strings.HasPrefix(key, prefix) && w.facts[key] {
			n++
		}
	}
	if w.last.Interactive && state == record.Done && reason == work.Signaled {
		state = record.Waiting
	}
	fact := fmt.Sprint(prefix, n, " ", state, " ", reason, " ", text)
	had := w.p.Inbox()
	w.maybe(fact)
	if err := w.last.End(work.Status{State: state, Reason: reason}, text); err != nil {
		if errors.Is(err, work.ErrTransition) || errors.Is(err, work.ErrPending) {
			delete(w.facts, fact)
		}
		return err
	}
	if w.p.Inbox() != had+1 {
		return wrong("%d outcomes in the inbox after an end, want %d", w.p.Inbox(), had+1)
	}
	w.owed = append(w.owed, fmt.Sprint(w.last.ID, ".", n))
	return w.ack(nil, fact)
}

func (w *world) route() error {
	text := strings.Repeat(fmt.Sprint("message ", w.count, " "), 60)
	n := 1
	prefix := "route " + w.last.ID + "."
	for key := range w.facts {
		if strings.HasPrefix(key, prefix) && w.facts[key] {
			n++
		}
	}
	fact := fmt.Sprint(prefix, n, " ", text)
	w.maybe(fact)
	err := w.last.Route(text)
	if errors.Is(err, work.ErrTransition) {
		delete(w.facts, fact)
	}
	return w.ack(err, fact)
}

func (w *world) deliver() error {
	var all []string
	out, err := w.p.Deliver(func(list []work.Outcome) string {
		var texts string
		for _, o := range list {
			all = append(all, "deliver "+o.Key())
			texts += o.Text
		}
		w.maybe(all...)
		return texts
	})
	if err == nil && len(out) == 0 {
		return wrong("nothing was delivered")
	}
	w.p.Tidy()
	for _, o := range out {
		w.owed = slices.DeleteFunc(w.owed, func(key string) bool { return key == o.Key() })
	}
	return w.ack(err, all...)
}

// full delivers on a full disk, which fails, and then again.
func (w *world) full() error {
	hook, failed := w.m.Hook, false
	w.m.Hook = func(c faultfs.Call) error {
		if c.Op == "write" && strings.HasPrefix(c.Name, sessions+"/"+parentID) && !failed {
			failed = true
			return syscall.ENOSPC
		}
		if hook != nil {
			return hook(c)
		}
		return nil
	}
	err := w.deliver()
	w.m.Hook = hook
	if failed && !errors.Is(err, sessionlog.ErrNotApplied) {
		return wrong("a delivery on a full disk: %v", err)
	}
	return w.deliver()
}

// textOf decodes a line of a session file.
type textOf struct {
	Role string
	Work json.RawMessage
}

// found reads the facts of the files, by the rules of sessionlog/FORMAT.md.
func found(m *faultfs.Mem) (facts, error) {
	all := facts{}
	add := func(format string, args ...any) error {
		fact := fmt.Sprintf(format, args...)
		if all[fact] {
			return wrong("twice in the files: %.60s", fact)
		}
		all[fact] = true
		return nil
	}
	children := map[string]string{} // ID of the work, by session
	asked := func(name string, w record.Work) error {
		if w.Op == record.WorkAnswer && all.has(fmt.Sprint("answer ", name, ".", w.N, " ")) {
			return wrong("question %d of %s has two answers", w.N, name)
		}
		return add("%s", strings.TrimSpace(fmt.Sprint(w.Op, " ", name, ".", w.N, " ", w.Text)))
	}
	err := eachLine(m, parentID, func(l textOf, w record.Work, keys []string) error {
		if w.Op == record.WorkAsk || w.Op == record.WorkAnswer {
			return asked("parent", w)
		}
		if w.Op == record.WorkStart {
			children[w.Session] = w.ID
			return add("start %s", w.ID)
		}
		for _, key := range keys {
			if err := add("deliver %s", key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for session, id := range children {
		ends := map[int]bool{}
		ended := false
		err := eachLine(m, session, func(l textOf, w record.Work, keys []string) error {
			switch w.Op {
			case record.WorkEnd:
				if ends[w.N] {
					return wrong("%s has two ends %d", id, w.N)
				}
				ends[w.N] = true
				if ended {
					return wrong("%s has the end %d after a terminal end", id, w.N)
				}
				ended = w.State != record.Waiting
				return add("end %s.%d %s %s %s", id, w.N, w.State, w.Reason, w.Text)
			case record.WorkRoute:
				ended = false
				return add("route %s.%d %s", id, w.N, w.Text)
			case record.WorkAsk, record.WorkAnswer, record.WorkUse:
				return asked(id, w)
			}
			for _, key := range keys {
				if err := add("take %s %s", id, key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if !ended {
			all["open "+id] = true
		}
	}
	return all, nil
}

// eachLine calls do with each line of a session that is JSON.
func eachLine(m *faultfs.Mem, session string, do func(l textOf, w record.Work, keys []string) error) error {
	for line := range strings.Lines(string(crashtest.Read(m, sessions+"/"+session+".jsonl"))) {
		var l textOf
		var w record.Work
		var keys []string
		if !strings.Contains(line, `"work":`) || json.Unmarshal([]byte(line), &l) != nil || l.Work == nil {
			continue
		}
		if l.Role == record.RoleUser {
			if err := json.Unmarshal(l.Work, &keys); err != nil {
				return wrong("%s: %v", line, err)
			}
		} else if err := json.Unmarshal(l.Work, &w); err != nil {
			return wrong("%s: %v", line, err)
		}
		if err := do(l, w, keys); err != nil {
			return err
		}
	}
	return nil
}

// marked returns the sessions with a file in the folder work.
func marked(m *faultfs.Mem) []string {
	var names []string
	list, _ := m.ReadDir(marks)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
