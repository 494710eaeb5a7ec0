package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/tool"
	"crabmem/fuzz/golden"
	"crabmem/sessionlog"
)

// randomCalls calls a Manager at random.
type randomCalls struct {
	*rig
	*rand.Rand
	n int // operations
}

func (h *randomCalls) pick(list ...string) string { return list[h.IntN(len(list))] }

// number returns the number of a session, which may be absent. It never returns
// a session of delegate: the end of its task closes the session while runs that
// wait for its run slot begin.
func (h *randomCalls) number() uint64 {
	list := slices.DeleteFunc(h.List(), func(l *Session) bool { return isDelegated(l.StoredID()) })
	if len(list) > 0 && h.IntN(10) > 0 {
		return list[h.IntN(len(list))].ID()
	}
	return 1000 + h.Uint64N(10)
}

func isDelegated(id string) bool { return strings.Contains(id, "_delegate-") }

// stored returns the ID of a stored session, which may be absent.
func (h *randomCalls) stored() string {
	list, _ := h.logs.List() // the disk may fail
	list = slices.DeleteFunc(list, func(i sessionlog.Info) bool { return isDelegated(i.ID) })
	if len(list) > 0 && h.IntN(10) > 0 {
		return list[h.IntN(len(list))].ID
	}
	return h.pick("crab_user_1", "crab_user_2", "crab_tg-7_1", "helper_user_1", "bound_user_1", "absent")
}

// context returns a context that may end after a time, with its name.
func (h *randomCalls) context() (ctx context.Context, cancel func(), name string) {
	switch h.IntN(8) {
	case 0:
		ctx, cancel := context.WithCancelCause(h.t.Context())
		cancel(errors.New("hung up"))
		return ctx, func() {}, ", ended"
	case 1:
		d := time.Duration(1+h.IntN(20))*time.Second + time.Duration(h.n)*time.Microsecond // never the time of a wait
		ctx, cancel := context.WithTimeoutCause(h.t.Context(), d, errors.New("too slow"))
		return ctx, cancel, fmt.Sprint(", for ", d.Truncate(time.Second))
	}
	return h.t.Context(), func() {}, ""
}

// run starts a run in a session and returns its description.
func (h *randomCalls) run(l *Session) string {
	n := h.n
	wait := fmt.Sprintf("wait %dns", (1+h.Int64N(30))*int64(time.Second)+int64(n))
	content := h.pick(wait, wait, "hello", "used 10 5", "used 20 1|used 7 7", "fail badly", "uncounted", "call recall {}|tell", "call bash {}|tell",
		`call ask_user {"questions":[{"question":"which?","header":"a"},{"question":"what?","header":"b"}]}|tell`, `call ask_user {"questions":[]}|tell`,
		`call delegate {"tasks":[{"agent":"helper","message":"call recall {}\u007ctell"}]}|tell`, fmt.Sprintf(`call delegate {"tasks":[{"agent":"helper","message":"wait %dns"}]}|tell`, 20*int64(time.Second)+int64(n)),
		`call delegate {"tasks":[{"agent":"absent","message":"<hello>"}]}|tell`, `call delegate {"tasks":[{"agent":"crab","message":""}]}|tell`)
	q := Run{Session: l, Content: content, Sender: h.pick("", "user", "tg:7"), Interactive: h.IntN(2) == 0, Model: h.pick("", "", "", "script", "other", "other", "absent")}
	name := fmt.Sprintf("run %d in %d by %q, model %q, interactive %v: %s", n, l.ID(), q.Sender, q.Model, q.Interactive, content)
	limit := h.IntN(20) // events until the caller fails
	if strings.Contains(content, "ask_user") || strings.Contains(content, "delegate") {
		limit = 20 // these tools may still begin
	}
	name += fmt.Sprint(", caller fails after ", limit)
	if limit < 17 {
		q.Each = func(e agent.Event) error {
			h.note("run %d: event %d %q %v %q %v %v", n, e.Kind, e.Text, e.Usage, e.Result.Output, e.Questions, e.Archive)
			if limit--; limit == 0 {
				return errors.New("caller failed")
			}
			return nil
		}
	}
	ctx, cancel, until := h.context()
	go func() {
		defer cancel()
		err := h.Run(ctx, &q)
		h.note("run %d returns %q %+v, %s", n, q.Answer, q.Usage, explain(err))
	}()
	return name + until
}

// request calls Resolve and starts a run in the session.
func (h *randomCalls) request() string {
	q := Request{Agent: h.pick("", "", "", "crab", "helper", "bound", "bound", "absent"), Sender: h.pick("", "user", "tg:7"), NewChat: h.IntN(9) == 0}
	name := fmt.Sprintf("resolve agent %q, sender %q, new %v", q.Agent, q.Sender, q.NewChat)
	if h.IntN(3) == 0 {
		id := h.number()
		q.Session = &id
		name += fmt.Sprint(", session ", id)
	}
	if h.IntN(5) == 0 {
		dir := h.pick("/work", "/other", "/other", "relative", "/absent")
		q.Dir = &dir
		name += ", dir " + dir
	}
	if h.IntN(4) == 0 {
		file := h.stored()
		q.Resume = &file
		name += ", resume " + file
	}
	l, err := h.Resolve(h.t.Context(), &q)
	if err != nil {
		h.note("Resolve returns %s, agent %s", explain(err), q.Agent)
		return name
	}
	h.note("Resolve returns %d, agent %s", l.ID(), q.Agent)
	return name + "\n" + h.run(l)
}

// with calls With in a goroutine.
func (h *randomCalls) with(id uint64) string {
	n, fails := h.n, h.IntN(3) == 0
	ctx, cancel, until := h.context()
	go func() {
		defer cancel()
		err := h.With(ctx, id, func(ctx context.Context, s Setup, a *agent.Agent, hist *agent.Session) error {
			if fails {
				return errors.New("refused")
			}
			summary, archive, err := s.Runner.Compact(ctx, a, hist, agent.CompactOptions{})
			h.note("compacted: %q %q %v", summary, archive, err)
			return err
		})
		h.note("with %d returns %s", n, explain(err))
	}()
	return fmt.Sprintf("with %d in %d, fails %v%s", n, id, fails, until)
}

// files makes calls about files.
func (h *randomCalls) files() string {
	ctx := h.t.Context() // a lock is free: an ended context would end some calls
	id := h.stored()
	switch h.IntN(4) {
	case 0:
		dir := h.pick("", "/other")
		l, err := h.Open(ctx, id, dir)
		h.note("Open returns %v, %v", l != nil, err)
		return "open " + id + " " + dir
	case 1:
		number := h.number()
		if h.IntN(2) == 0 {
			id = ""
		}
		l, err := h.Named(ctx, number, id)
		h.note("Named returns %v, %v", l != nil, err)
		return fmt.Sprintf("named %d %q", number, id)
	case 2:
		err := h.WithIdle(ctx, id, func() error {
			h.note("idle: locks %d", len(h.Manager.stored.held))
			if h.IntN(3) == 0 {
				return errors.New("refused")
			}
			return nil
		})
		h.note("WithIdle returns %s", explain(err))
		return "with idle " + id
	}
	h.SetTitle(id, fmt.Sprint("title ", h.n))
	return "set title of " + id
}

// control ends runs and sessions, and answers questions.
func (h *randomCalls) control() string {
	id := h.number()
	l, err := h.Get(id)
	if err != nil {
		return fmt.Sprint("get ", err)
	}
	switch h.IntN(4) {
	case 0:
		h.note("Kill returns %v %v", h.Kill(l), h.Kill(l))
		return fmt.Sprint("kill ", id)
	case 1:
		h.note("Cancel returns %v", l.Cancel(ErrCancelled))
		return fmt.Sprint("cancel ", id)
	}
	ctx, cancel, until := h.context()
	defer cancel()
	h.note("Reply returns %s", explain(h.Reply(ctx, id, fmt.Sprint("reply ", h.n))))
	return fmt.Sprint("reply to ", id, until)
}

// world changes the files, the configuration, or the time.
func (h *randomCalls) world() string {
	switch h.IntN(8) {
	case 0:
		meta := sessionlog.Meta{Agent: h.pick("crab", "bound", "absent"), CreatedBy: h.pick("user", "tg:7", ""), Title: h.pick("", "a title"), UptimeSecs: 77}
		l, err := h.Create(meta, "", h.pick("", "/other"), tool.Scope{Tools: tool.Only("recall", "delegate"), Members: tool.Only("helper"), Memory: tool.AllMemory()})
		h.note("Create returns %v, %v", l != nil, err)
		return fmt.Sprintf("create %+v", meta)
	case 1:
		h.Stop(h.t.Context(), errors.New("stopping"))
		return "stop"
	case 2:
		h.close()
		h.open()
		return "restart"
	case 3:
		id := h.stored()
		h.mend()
		h.check(vfs.MkdirAll(h.fs, rigHome+"/archived", 0o700))
		h.fs.WriteFile(rigHome+"/archived/"+id, []byte(h.pick("0\n", "1\n", "9\n", "-1\n", "x\n", "1")), 0o600)
		return "change archived/" + id
	case 4:
		name := h.pick("helper", "bound")
		h.change(func(s *Setup) {
			if s.Agents[name] != nil {
				delete(s.Agents, name)
			} else {
				s.Agents[name] = &agent.Agent{Name: name, Scope: tool.Unbounded(), MaxIterations: 2}
			}
		})
		return "add or remove agent " + name
	}
	d := time.Duration(1+h.IntN(20)) * time.Second
	time.Sleep(d)
	return "sleep " + d.String()
}

// operation does one operation, in which a call of the disk may fail.
func (h *randomCalls) operation() string {
	h.n++
	fault := ""
	if h.IntN(8) == 0 {
		op, part := h.pick("write", "datasync", "sync", "create", "rename", "open", "close", "mkdir", "read", "readdir", "stat", "lock"), h.pick("sessions", "archived", "memory", "")
		h.fail(op, part)
		fault = fmt.Sprintf("\n%s of %q fails", op, part)
	}
	var name string
	switch h.IntN(10) {
	case 0, 1, 2, 3:
		name = h.request()
	case 4:
		name = h.with(h.number())
	case 5, 6:
		name = h.files()
	case 7:
		name = h.control()
	default:
		name = h.world()
	}
	h.note("end of %d", h.n)
	name += fault
	synctest.Wait()
	h.mend()
	// Runs end between whole milliseconds, operations begin at them.
	time.Sleep(time.Until(time.Now().Truncate(time.Millisecond).Add(time.Millisecond)))
	return strings.ReplaceAll(name, "\n", "; ") + "\x00" + endOfQuestion.Replace(h.outcome())
}

// TestReportsOfHistories compares what a Manager returns, calls, and logs in
// random histories, and its state after each operation.
func TestReportsOfHistories(t *testing.T) {
	var out golden.Reports
	for seed := range uint64(20) {
		bubble(t, func(r *rig) {
			h := &randomCalls{rig: r, Rand: rand.New(rand.NewPCG(7, seed))}
			for range 60 {
				name, outcome, _ := strings.Cut(h.operation(), "\x00")
				out.Add(fmt.Sprintf("history %d, operation %d: %s", seed, h.n, name), outcome)
			}
		})
	}
	out.Compare(t, "testdata/reports/histories.txt.gz")
}
