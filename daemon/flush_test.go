package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/sessionlog/record"
)

const flushes = "compact_threshold = 20000\nflush = true\n"

// fill fills the context of a sender's session to more than 80 %.
func (d *Daemon) fill(t *testing.T, sender string) {
	t.Helper()
	d.say(t, sender, strings.Repeat("filler ", 11_000))
}

// notes returns the notes of a store, each as NAME: CONTENT.
func notes(s *crmem.Store) (list []string) {
	for e := range s.All() {
		if e.Kind == crmem.Note {
			list = append(list, e.Name+": "+e.Content)
		}
	}
	return list
}

// archivedFile returns the content of a session's file archived/ID.
func archivedFile(t *testing.T, fs vfs.FS, id string) string {
	t.Helper()
	b, err := vfs.ReadFile(fs, "/home/crab/archived/"+id, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// want compares lists.
func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestFlushStoresNotes flushes in the background, for an agent with a role, while a turn runs,
// and in the turn for another one. The notes are in the store, with their maker, once. A note that
// the user forgets does not come back, also after a restart and another flush.
func TestFlushStoresNotes(t *testing.T) {
	for _, role := range []string{"role = \"channel\"\n", ""} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			d, _ := channel(t, fs, "")
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			fs.WriteFile("/home/crab/config.toml", []byte("[system.crab]\n"+role+flushes), 0o600)
			d, m := again(t, fs)
			m.summary = "the summary"
			m.notes = []string{`{"name":"tea","content":"green","aliases":["drink"],"type":"fact"}`, `{"name":"milk","content":"none"}`, `{"name":"x","content":" "}`}
			var flushed atomic.Pointer[string]
			stop := followed(t, d, agent.Flushed, &flushed)
			began := time.Now()
			d.fill(t, "user")
			d.say(t, "user", "and now?")
			if waited := time.Since(began) > 0; waited != (role == "") {
				t.Errorf("a turn took %v", time.Since(began))
			}
			if n := d.store.Len(); role != "" && n != 0 {
				t.Errorf("%d entries before the end of the flush", n)
			}
			time.Sleep(5 * time.Minute)
			d.say(t, "user", "more")
			synctest.Wait()
			want(t, "notes", notes(d.store), "tea: ---\ntype: fact\ncrabmem: 1\n---\ngreen", "milk: none")
			want(t, "results", m.results[:2], "remembered: tea", "remembered: milk")
			if got := flushed.Load(); got == nil || *got != "tea, milk" || !strings.HasPrefix(m.results[2], "failed to save entry: ") {
				t.Errorf("event %v, results %q", got, m.results)
			}
			for c, err := range d.store.ChangesOf("tea") {
				if want := (crmem.Actor{Agent: "crab", Session: "crab_user_1", Call: "flush-1", Origin: "user"}); err != nil || c.By != want {
					t.Errorf("the maker is %+v, %v", c.By, err)
				}
			}
			if got := archivedFile(t, fs, "crab_user_1"); got != "1/1/1" {
				t.Errorf("archived: %s", got)
			}
			if e, err := d.store.Get("drink"); err != nil || e.Name != "tea" {
				t.Errorf("alias: %s, %v", e.Name, err)
			}
			if err := d.store.Forget("tea", crmem.By{}); err != nil {
				t.Error(err)
			}
			stop()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			d, m = again(t, fs)
			defer d.Close()
			m.summary, m.notes = "the summary", []string{`{"name":"honey","content":"yes"}`}
			want(t, "notes after a restart", notes(d.store), "milk: none")
			d.fill(t, "user")
			time.Sleep(5 * time.Minute)
			d.say(t, "user", "more")
			synctest.Wait()
			want(t, "notes after another flush", notes(d.store), "milk: none", "honey: yes")
			if got := archivedFile(t, fs, "crab_user_1"); got != "2/2/2" {
				t.Errorf("archived: %s", got)
			}
		})
	}
}

// followed stores the text of the newest event of a kind, until the returned function is called.
func followed(t *testing.T, d *Daemon, kind agent.Kind, to *atomic.Pointer[string]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // until stop
		defer close(done)
		_ = d.follow(ctx, &op.Identity{Owner: true}, op.EventFilter{}, func(e agent.Event) error {
			if e.Kind == kind {
				to.Store(&e.Content)
			}
			return nil
		})
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-done
	}
}

// TestFlushOfChangedNotes changes and removes notes after the flush has read them. The user's
// texts stay, the note of the flush has another name, and a removed note does not come back.
func TestFlushOfChangedNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := channel(t, faultfs.NewMem(), flushes)
		defer d.Close()
		for _, name := range []string{"same", "changed", "gone", "equal"} {
			if _, err := d.store.Remember(name, "old", nil); err != nil {
				t.Fatal(err)
			}
		}
		m.summary = "the summary"
		for _, name := range []string{"same", "changed", "gone", "equal", "fresh"} {
			m.notes = append(m.notes, `{"name":"`+name+`","content":"new"}`)
		}
		m.onEnd = func() { // the flush has read the notes
			_, err := d.store.Remember("changed", "of the user", nil)
			for name, text := range map[string]string{"equal": "new", "fresh": "of the user"} {
				if err == nil {
					_, err = d.store.Remember(name, text, nil)
				}
			}
			if err == nil {
				err = d.store.Forget("gone", crmem.By{})
			}
			if err != nil {
				t.Error(err)
			}
		}
		d.fill(t, "user")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		want(t, "notes", notes(d.store), "same: new", "changed: of the user", "equal: new", "fresh: of the user", "changed (crab_user_1-f1): new", "fresh (crab_user_1-f1): new")
	})
}

// TestFlushKilled kills the daemon after each step of a flush. The next one stores the notes
// before it answers, and only once: also if the user has removed a note before.
func TestFlushKilled(t *testing.T) {
	const line = `"op":"flush"`
	for _, at := range []string{"before the record", "before the notes", "before the count", "removed before the count"} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			d, m := channel(t, fs, flushes+"[sessions]\ntitles = \"off\"\n")
			defer d.Close()
			m.summary, m.notes = "the summary", []string{`{"name":"tea","content":"green"}`}
			var killed atomic.Pointer[faultfs.Mem]
			fs.SetHook(func(c faultfs.Call) error {
				hit := false
				switch {
				case killed.Load() != nil || c.Op != "write":
				case at == "before the record":
					hit = strings.Contains(c.Name, "/sessions/crab_user_1") && hasFile(fs, "archived/crab_user_1") && !hasText(fs, "sessions/crab_user_1.jsonl", line)
				case at == "before the notes":
					hit = strings.Contains(c.Name, "memory.db-wal") && hasText(fs, "sessions/crab_user_1.jsonl", line)
				default:
					hit = strings.Contains(c.Name, "/archived/") && hasText(fs, "sessions/crab_user_1.jsonl", line)
				}
				if hit {
					killed.Store(fs.Kill())
				}
				return nil
			})
			d.fill(t, "user")
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			left := killed.Load()
			if left == nil {
				t.Fatalf("%s: no write", at)
			}
			text := []string{"tea: green"}
			if at == "removed before the count" {
				s, err := crmem.Open("/home/crab/memory.db", &crmem.Options{FS: left})
				if err == nil {
					err = s.Forget("tea")
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				text = nil
			}
			next, m := again(t, left)
			defer next.Close()
			counts := "-1/1/1"
			if at == "before the record" {
				text, counts = nil, "-1"
			}
			want(t, at, notes(next.store), text...)
			if got := archivedFile(t, left, "crab_user_1"); got != counts {
				t.Errorf("%s: archived: %s, want %s", at, got, counts)
			}
			m.summary, m.notes = "the summary", []string{`{"name":"later","content":"x"}`}
			next.say(t, "user", "and now?") // the context is full: it flushes what no flush covers
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			want(t, at+", later", notes(next.store), append(text, "later: x")...)
		})
	}
}

func hasFile(fs *faultfs.Mem, name string) bool {
	_, err := fs.Lstat("/home/crab/" + name)
	return err == nil
}

func hasText(fs *faultfs.Mem, name, text string) bool {
	b, err := vfs.ReadFile(fs.Kill(), "/home/crab/"+name, 1<<20)
	return err == nil && strings.Contains(string(b), text)
}

// TestFlushPermissions flushes conversations of other identities: a trusted one in its own
// space with a quota, an untrusted one not at all. Notes with a secret are refused.
func TestFlushPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := channel(t, faultfs.NewMem(), flushes+tgTrusted)
		defer d.Close()
		m.summary = "the summary"
		m.notes = []string{`{"name":"tea","content":"green"}`, `{"name":"key","content":"` + "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE" + `"}`, `{"name":"long","content":"` + strings.Repeat("x", record.MaxNote+1) + `"}`}
		for _, sender := range []string{"tg:7", "slack:8"} {
			d.fill(t, sender)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
		}
		if len(m.results) != 3 || m.results[0] != "remembered: tea" || !strings.Contains(m.results[1], "contains") || !strings.Contains(m.results[2], "at most 2048") {
			t.Errorf("results %q", m.results)
		}
		if n := d.store.Len(); n != 0 {
			t.Errorf("%d entries in the space main", n)
		}
		if err := d.inSpace(space.OfSender("tg:7"), func(s *crmem.Store) error {
			want(t, "notes of the sender", notes(s), "tea: green")
			return nil
		}); err != nil {
			t.Error(err)
		}
		// What the flush could do, but its creator may do no more, has no effect.
		log, err := d.sessions.Open("crab_slack-8_1")
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		w := record.Work{Op: record.WorkFlush, N: 1, Notes: []record.Note{{Name: "tea", Content: "green"}}}
		w.Scope, err = json.Marshal(tool.Unbounded())
		if names, serr := d.storeNotes(log, w, false); err != nil || serr != nil || names != nil || d.store.Len() != 0 {
			t.Errorf("stored %q, %v, %v", names, err, serr)
		}
	})
}
