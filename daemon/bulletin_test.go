package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/model"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// editor is a model that writes bulletins, and answers messages with what it received.
type editor struct {
	mu     sync.Mutex
	asked  []time.Time // for bulletins, since the last call of calls
	total  int
	source string // of the last one
	err    error
	during func() // called in a request
}

func (m *editor) Send(_ context.Context, q model.Request) (*model.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total++
	m.asked, m.source = append(m.asked, time.Now()), q.Messages[1].Content
	if m.during != nil {
		m.during()
		m.during = nil
	}
	text := fmt.Sprintf("bulletin %d", m.total)
	return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: text}, Finish: "stop"}, m.err
}

func (m *editor) Stream(_ context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		var got strings.Builder
		for _, message := range q.Messages {
			got.WriteString(message.Content + "\n")
		}
		yield(model.Chunk{Content: got.String(), Finish: "stop"}, nil)
	}
}

// calls returns the number of requests since the last call, and the time of the last.
func (m *editor) calls() (int, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, last := len(m.asked), time.Time{}
	if n > 0 {
		last = m.asked[n-1]
	}
	m.asked = nil
	return n, last
}

// TestBulletin: a model rewrites the context only after it changed, also after a restart.
// An error or a change during the request keeps the text. Agents read the text.
func TestBulletin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, m := faultfs.NewMem(), &editor{}
		err := vfs.MkdirAll(fs, "/home/crab", 0o700)
		if err == nil {
			err = vfs.WriteFile(fs, "/home/crab/config.toml", 0o600, []byte("[cortex]\nsynthesis = \"1h\"\n[system.crab]\ninject = \"context\"\n[sessions]\ntitles = \"off\"\n"))
		}
		check(t, err)
		var d *Daemon
		during := func(last time.Duration) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { d.bulletins(ctx); close(done) }()
			time.Sleep(last)
			synctest.Wait()
			cancel()
			<-done
		}
		open := func() {
			t.Helper()
			d, _ = bubble(t, fs)
			check(t, d.setup().models.AddBackend("editor", 8192, m))
			check(t, d.setup().models.Switch("editor"))
		}
		want := func(what string, calls int, text string) {
			t.Helper()
			during(10 * time.Hour)
			n, _ := m.calls()
			if e, _ := d.store.Get(bulletin); n != calls || !strings.HasSuffix(strings.TrimSpace(e.Content), text) {
				t.Errorf("%s: %d calls, want %d; bulletin %q, want %q", what, n, calls, e.Content, text)
			}
		}
		open()
		want("without notes", 0, "")
		check(t, d.store.Apply(crmem.Add{Name: "tea", Content: "green"}, crmem.Add{Name: "cup", Content: "the pelican"}))
		want("two notes", 1, "bulletin 1")
		if !strings.Contains(m.source, "tea: green") {
			t.Errorf("the model received %q", m.source)
		}
		if got := d.say(t, "user", "hello"); !strings.Contains(got, "# Bulletin, ") || !strings.Contains(got, "old\nbulletin 1\n") || strings.Contains(got, "pelican") {
			t.Errorf("an agent reads %q", got)
		}
		d.Close()
		open()
		want("after a restart", 0, "bulletin 1")
		m.during = func() { check(t, d.store.Forget("cup")) }
		check(t, d.store.Apply(crmem.Add{Name: "pot", Content: "blue"}))
		during(30 * time.Minute)
		if e, _ := d.store.Get(bulletin); !strings.HasSuffix(e.Content, "bulletin 1") {
			t.Errorf("a note was removed during the request: %q", e.Content)
		}
		want("after it", 2, "bulletin 3")
		if strings.Contains(m.source, "pelican") || strings.Contains(m.source, "bulletin") {
			t.Errorf("the model received %q", m.source)
		}
		m.err = errors.New("no model")
		check(t, d.store.Forget("pot"))
		begin := time.Now()
		during(time.Minute + 31*time.Second)
		if n, last := m.calls(); n != 2 || last.Sub(begin) != time.Minute+30*time.Second {
			t.Errorf("%d calls, the last after %v", n, last.Sub(begin))
		}
		during(4 * time.Hour)
		if n, _ := m.calls(); n < 18 || n > 24 { // three in 31.5 minutes
			t.Errorf("%d calls in 4 hours", n)
		}
		m.err = nil
		want("after errors", 1, fmt.Sprint("bulletin ", m.total+1))
		d.Close()
	})
}
