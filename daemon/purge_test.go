package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/client"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire"
	"crabmem/sessionlog"
)

// TestOnlyUsersErase checks that the daemon refuses to purge and to prune for
// agents, MCP clients, and identities of other services, whatever their trust.
func TestOnlyUsersErase(t *testing.T) {
	s := serve(t, home(t), "[origins.\"api:\"]\ntrust = \"admin\"\n")
	remember := func() {
		t.Helper()
		if _, _, err := s.store.Overwrite(crmem.Remember{Name: "a", Content: "a text to purge"}); err != nil {
			t.Fatal(err)
		}
	}
	remember()
	log, err := s.sessions.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if err == nil {
		err = errors.Join(log.Append(sessionlog.Message{Role: "user", Content: "this is a text to purge"}), log.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	id := log.ID()
	request := func(by crmem.Actor) (purged, pruned, session error) {
		c := &client.Client{Addr: wire.Addr{Network: "unix", Address: Socket(s.home)}, Header: op.Header{By: by}}
		_, session = op.PurgeSession.Do(t.Context(), c, op.SessionTexts{Session: id, Texts: []string{"a text to purge"}})
		_, purged = op.Purge.Do(t.Context(), c, op.Removal{Name: "a", Archive: true})
		_, pruned = op.PruneHistory.Do(t.Context(), c, op.Age{Before: time.Now()})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		return purged, pruned, session
	}
	for _, by := range []crmem.Actor{
		{Agent: "crab"}, {Session: "crab_user_1"}, {Call: "call-1"}, {Client: crmem.ClientMCP}, {Origin: "tg:7"}, {Origin: "api:ci"}, {Origin: ":"},
		{Agent: "crab", Client: crmem.ClientCLI}, {Origin: "delegate-crab:tg:7", Client: crmem.ClientCLI},
	} {
		purged, pruned, session := request(by)
		for _, err := range []error{purged, pruned, session} {
			if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != 403 || e.Kind != "permission" || e.Remedy == "" || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%+v: %v, want a permission error", by, err)
			}
		}
	}
	if _, err := s.store.Get("a"); err != nil {
		t.Errorf("after refused requests: %v", err)
	}
	for _, by := range []crmem.Actor{{}, {Client: crmem.ClientCLI}, {Client: crmem.ClientCLI, Origin: "user"}} {
		remember()
		purged, pruned, session := request(by)
		if _, err := s.store.Get("a"); purged != nil || pruned != nil || session != nil || !errors.Is(err, crmem.ErrNotFound) {
			t.Errorf("%+v: purge %v, prune %v, session %v, get %v", by, purged, pruned, session, err)
		}
	}
}

// TestNoToolErases checks that no agent has a tool that purges or prunes.
func TestNoToolErases(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m))
	if _, _, err := s.store.Overwrite(crmem.Remember{Name: "a", Content: "a text to purge"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"purge", "prune"} {
		if slices.Contains(tool.BuiltIn(), name) {
			t.Errorf("there is a tool %s", name)
		}
		toolResult(t, s, m, name, `{"name":"a"}`)
	}
	toolResult(t, s, m, "forget", `{"name":"a","purge":true}`)
	n := 0
	for c, err := range s.store.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		if c.Entry().Content == "a text to purge" {
			n++
		}
	}
	if n == 0 {
		t.Error("a tool removed the history of an entry")
	}
}

// TestPurgeDuringSummary purges a text from a session, also after a summary of the session
// began or ended in the background. No later line contains the text.
func TestPurgeDuringSummary(t *testing.T) {
	const text = "plantedword"
	for _, after := range []time.Duration{time.Second, time.Minute + time.Second, 4 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			d, m := channel(t, fs, "compact_threshold = 20000\nflush = true\n")
			defer d.Close()
			m.summary, m.notes = "the word is "+text, []string{`{"name":"word","content":"` + text + `"}`}
			d.say(t, "user", text+strings.Repeat(" filler", 11_000))
			time.Sleep(after)
			synctest.Wait()
			const id = "crab_user_1"
			lines := 0
			err := d.loaded.WithIdle(t.Context(), id, func() (err error) {
				lines, err = d.sessions.Purge(id, text)
				return err
			})
			if err != nil || lines != map[bool]int{true: 1, false: 2}[after < time.Minute] { // with the flush
				t.Fatal(after, lines, err)
			}
			time.Sleep(2 * time.Minute)
			for range 2 {
				d.say(t, "user", "more")
			}
			s, err := d.sessions.Read(id)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			b, err := vfs.ReadFile(fs, s.Path, 1<<20)
			if err != nil || bytes.Contains(b, []byte(text)) {
				t.Errorf("after %v: the file contains the text (%v)", after, err)
			}
		})
	}
}

// TestPurgeDuringFlush purges a session while the notes of a flush are written. The purge waits
// until the flush is complete, and no flush of the session follows.
func TestPurgeDuringFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, flushes+"[sessions]\ntitles = \"off\"\n")
		defer d.Close()
		m.summary, m.notes = "the summary", []string{`{"name":"tea","content":"plantedword"}`}
		var once sync.Once
		done := make(chan string)
		fs.SetHook(func(c faultfs.Call) error {
			if c.Op == "write" && strings.Contains(c.Name, "memory.db-wal") && hasText(fs, "sessions/crab_user_1.jsonl", `"op":"flush"`) {
				once.Do(func() {
					go func() { // until the purge has ended
						err := d.loaded.WithIdle(t.Context(), "crab_user_1", func() (err error) {
							counts := archivedFile(t, fs, "crab_user_1")
							_, err = d.sessions.Purge("crab_user_1", "plantedword")
							done <- counts
							return err
						})
						if err != nil {
							t.Error(err)
						}
					}()
					for range 1000 {
						runtime.Gosched()
					}
				})
			}
			return nil
		})
		d.fill(t, "user")
		if counts := <-done; counts != "-1/1/1" {
			t.Errorf("purged at %s", counts)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if hasText(fs, "sessions/crab_user_1.jsonl", "plantedword") || !hasText(fs, "sessions/crab_user_1.jsonl", `"notes":[{"name":"tea","content":"[purged]"}]`) {
			t.Error("the session was not purged")
		}
	})
}
