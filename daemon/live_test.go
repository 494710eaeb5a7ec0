package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
)

// disk is a file system whose session files fail on demand.
type disk struct {
	vfs.OS
	write, sync atomic.Pointer[error]
}

func (d *disk) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := d.OS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, ".jsonl") {
		f = &failing{f, d}
	}
	return f, err
}

type failing struct {
	vfs.File
	d *disk
}

func (f *failing) Write(b []byte) (int, error) {
	if err := f.d.write.Load(); err != nil {
		return 0, *err
	}
	return f.File.Write(b)
}

func (f *failing) Datasync() error {
	if err := f.d.sync.Swap(nil); err != nil {
		return *err
	}
	return f.File.Datasync()
}

// onEvent is a hook that sees events.
func onEvent(f func(*agent.Turn, agent.Event)) func(*Options) {
	return func(o *Options) { o.Hooks.Event = f }
}

// TestKilledSessionIsResumed kills a session whose run ends slowly. A request
// for it then waits until the file has no writer.
func TestKilledSessionIsResumed(t *testing.T) {
	m := modeltest.New(t, modeltest.Reply{}.Text("one ").Stall(0), modeltest.Say("two"))
	hold, holding := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := serve(t, home(t), scripted(m), onEvent(func(_ *agent.Turn, e agent.Event) {
		if e.Kind == agent.Done {
			once.Do(func() {
				close(holding)
				<-hold
			})
		}
	}))
	f := s.begin(&pb.StreamMsg{Content: "hi"})
	first := f.start()
	stored := s.stored(first.Session)
	f.chunk("one ")
	killed := make(chan error, 1)
	go func() {
		if e := s.kill(first.Session).GetError(); e != nil {
			killed <- errors.New(e.GetMessage())
			return
		}
		killed <- nil
	}()
	<-holding
	if list := s.list(); len(list) != 0 {
		t.Errorf("it is killed, and listed: %v", list)
	}
	started := make(chan *pb.StreamStart, 1)
	second := s.begin(&pb.StreamMsg{Content: "and?"})
	go func() { started <- second.start() }()
	select {
	case <-started:
		t.Error("a second writer of one session's file")
	case <-time.After(100 * time.Millisecond):
	}
	close(hold)
	if err := <-killed; err != nil {
		t.Error(err)
	}
	if e := f.end(); e != session.ErrKilled.Error() {
		t.Errorf("the run ended with %q", e)
	}
	if start := <-started; start.Session == first.Session || s.stored(start.Session) != stored {
		t.Errorf("%v after %v", start, first)
	}
	if e := second.end(); e != "" {
		t.Error(e)
	}
	want := []string{"user hi", "assistant one ", "user and?", "assistant two"}
	if got := s.lines(stored); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestKillDuringOpen kills sessions while others ask for them.
func TestKillDuringOpen(t *testing.T) {
	s := serve(t, home(t), "")
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for i := range 100 {
			who := fmt.Sprint(i % 2)
			if _, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Content: "hi", Sender: who}); err != nil && !strings.Contains(err.Error(), session.ErrKilled.Error()) {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, l := range s.loaded.List() {
				s.loaded.Kill(l)
				_, _ = op.CompactSession.Do(t.Context(), op.Local{On: op.Daemon{Parts: s.parts}}, op.Compaction{Number: l.ID() + 1})
			}
		}
	})
	wg.Wait()
	infos, err := s.sessions.List()
	if err != nil || len(infos) != 2 {
		t.Fatalf("%d sessions, %v", len(infos), err)
	}
	for _, i := range infos {
		if i.Err != nil || i.Damaged > 0 {
			t.Errorf("%+v", i)
		}
	}
}

// TestLockedSessionBlocksNoOther asks for a session that another process has.
func TestLockedSessionBlocksNoOther(t *testing.T) {
	t.Run("released", func(t *testing.T) { lockedSession(t, gate.Hang) })
	t.Run("not released", func(t *testing.T) { lockedSession(t, time.Millisecond) })
}

// lockFS reports the first lock that another process holds.
type lockFS struct {
	vfs.OS
	waits chan bool // capacity 1
}

func (f *lockFS) Lock(name string) (vfs.Locked, error) {
	l, err := f.OS.Lock(name)
	if errors.Is(err, vfs.ErrLocked) {
		select {
		case f.waits <- true:
		default:
		}
	}
	return l, err
}

// lockedSession sends to a locked session, and to another one. With a long wait
// the lock is released after the second response; otherwise never.
func lockedSession(t *testing.T, wait time.Duration) {
	fsys := &lockFS{waits: make(chan bool, 1)}
	s := serve(t, home(t), "", func(o *Options) { o.LockWait, o.FS = wait, fsys })
	ctx := t.Context()
	sent, err := op.SendMessage.Do(ctx, s.client(), op.Message{Agent: "crab", Content: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	if e := s.kill(sent.Number).GetError(); e != nil {
		t.Fatal(e)
	}
	other, err := sessionlog.OpenDir(filepath.Join(s.home, "sessions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Open(sent.Session); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := op.SendMessage.Do(context.Background(), s.client(), op.Message{Agent: "crab", Content: "hi"})
		waited <- err
	}()
	<-fsys.waits
	who := "somebody else"
	if _, err := op.SendMessage.Do(ctx, s.client(), op.Message{Agent: "crab", Content: "hi", Sender: who}); err != nil {
		t.Error(err)
	}
	if wait < gate.Hang {
		wantError(t, <-waited, 409, "locked", "")
		return
	}
	select {
	case err := <-waited:
		t.Errorf("the session is locked, and Send returned %v", err)
	default:
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// TestDiskFull lets the results of a call find no room. The next run has no call
// without a result.
func TestDiskFull(t *testing.T) {
	d := &disk{}
	m := modeltest.New(t, modeltest.Call(tool.Recall, `{"query":"x"}`), modeltest.Say("well"))
	s := serve(t, home(t), scripted(m), func(o *Options) { o.FS = d }, onEvent(func(_ *agent.Turn, e agent.Event) {
		if e.Kind == agent.ToolResult {
			full := error(syscall.ENOSPC)
			d.write.Store(&full)
		}
	}))
	_, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Content: "hi"})
	wantError(t, err, 500, "not_applied", "no space")
	d.write.Store(nil)
	if _, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Content: "again"}); err != nil {
		t.Fatal(err)
	}
	rs := m.Requests()
	var roles []string
	for _, m := range rs[len(rs)-1].Messages[1:] {
		roles = append(roles, m.Role)
	}
	if got := strings.Join(roles, " "); got != "user assistant tool assistant user" {
		t.Errorf("the model was sent %s", got)
	}
}

// TestLogStopped fails a sync. The session's next run continues from the
// content of the file.
func TestLogStopped(t *testing.T) {
	d := &disk{}
	m := modeltest.New(t, modeltest.Say("one"), modeltest.Say("two"))
	var fail atomic.Bool
	s := serve(t, home(t), scripted(m), func(o *Options) { o.FS = d }, onEvent(func(_ *agent.Turn, e agent.Event) {
		if e.Kind == agent.TextDelta && !fail.Swap(true) {
			eio := error(syscall.EIO)
			d.sync.Store(&eio)
		}
	}))
	_, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Content: "hi"})
	wantError(t, err, 500, "outcome_unknown", "")
	r, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Content: "again"})
	if err != nil || r.Content != "two" {
		t.Errorf("%v, %v", r, err)
	}
}

// TestSessionsAreBounded has more sessions than may be live, with more text than
// may be loaded.
func TestSessionsAreBounded(t *testing.T) {
	race.Skip(t)
	s := serve(t, home(t), "[limits]\nsessions = 10\n")
	c, ctx := s.client(), t.Context()
	text := strings.Repeat(".", 2<<20) // the search for it takes no time
	var first op.Answer
	const (
		maxLoaded = 8 << 20
		justFound = 64 // sessions that are not evicted
	)
	for i := range maxLoaded>>21 + 4 {
		r, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: text, New: true})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = r
		}
		if n := s.loaded.LoadedBytes(); n > maxLoaded {
			t.Fatalf("%d bytes of histories after %d sessions", n, i)
		}
	}
	for range justFound + 10 {
		if _, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "hi", New: true}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.loaded.List()); n > justFound+11 {
		t.Errorf("%d sessions are live", n)
	}
	if _, err := s.loaded.Get(first.Number); err == nil {
		t.Error("the oldest is live still")
	}
	r, err := op.SendMessage.Do(ctx, c, op.Message{Agent: "crab", Content: "again", Session: first.Session})
	if err != nil || r.Session != first.Session {
		t.Errorf("%v, %v", r.Session, err)
	}
	if h, err := s.describe(first.Session); err != nil || h.Messages != 4 {
		t.Errorf("%v, %v", h, err)
	}
}

func everybody(string) bool { return true }

// TestQueueOfBytes publishes long events to a subscriber that does not read.
func TestQueueOfBytes(t *testing.T) {
	var h hub
	sub, err := h.add(op.EventFilter{}, everybody, 1024, 1)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1<<20)
	for range 100 {
		h.publish(&agent.Event{Content: long}, "user")
	}
	if n := len(sub.queue); n != 3 || sub.lost.Load() != 97 {
		t.Errorf("%d events wait, %d are lost", n, sub.lost.Load())
	}
	var big hub
	if sub, err = big.add(op.EventFilter{}, everybody, 1024, 1); err != nil {
		t.Fatal(err)
	}
	big.publish(&agent.Event{Content: strings.Repeat("x", 2*maxQueued)}, "user")
	if len(sub.queue) != 1 {
		t.Error("an event that is longer than the queue never arrives")
	}
}
