package daemon

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/box"
	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
)

const deliverHome = "/home/crab"

// again opens a daemon on the disk that another one left.
func again(t *testing.T, fs *faultfs.Mem) (*Daemon, *scripts) {
	t.Helper()
	m := &scripts{}
	d, err := Open(Options{Home: deliverHome, FS: fs, Getenv: func(string) string { return "" }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Offline: m})
	if err != nil {
		t.Fatal(err)
	}
	return d, m
}

// boxes returns the conversations of a home.
func boxes(fs *faultfs.Mem) (list []box.File) {
	box.Each(fs, deliverHome, time.Now, func(f *box.File) { list = append(list, *f) })
	return list
}

// texts returns the texts for conversations, each as CONVERSATION KIND: TEXT, and the states of the
// deliveries that had a text.
func texts(fs *faultfs.Mem) (texts, states []string) {
	for _, f := range boxes(fs) {
		for _, a := range f.Answers {
			texts = append(texts, fmt.Sprintf("%s %s: %s", f.Conversation, a.Kind, a.Content))
		}
		for _, o := range f.Deliveries {
			if o.Key != "" {
				states = append(states, string(o.State)+" "+o.Reason)
			}
		}
	}
	return texts, states
}

func wantTexts(t *testing.T, fs *faultfs.Mem, want ...string) {
	t.Helper()
	if got, states := texts(fs); !slices.Equal(got, want) {
		t.Errorf("texts %q (%q), want %q", got, states, want)
	}
}

// mistake is one that the enumeration must find.
type mistake string

const (
	noMistake mistake = ""
	forgets   mistake = "the text and its state are not one write"
	boxFirst  mistake = "the text is added before the session has it"
)

// spoil changes a disk as a daemon with a mistake would.
func spoil(t *testing.T, m *faultfs.Mem, made mistake) {
	t.Helper()
	dir, from, to := "/telegram", `"state":"pending","at"`, `"state":"owed","at"`
	if made == boxFirst {
		dir, from, to = "/sessions", `"role":"assistant","content":"`, `"gone":"assistant","content":"`
	}
	if got, _ := texts(m); made == noMistake || len(got) == 0 {
		return
	}
	list, err := m.ReadDir(deliverHome + dir)
	for _, e := range list {
		if b, rerr := vfs.ReadFile(m, deliverHome+dir+"/"+e.Name(), 1<<20); rerr == nil && err == nil && !e.IsDir() {
			m.WriteFile(deliverHome+dir+"/"+e.Name(), bytes.ReplaceAll(b, []byte(from), []byte(to)), 0o600)
		}
	}
}

// changes are the calls of the file system that change a disk.
var changes = []string{"create", "write", "truncate", "sync", "datasync", "rename", "link", "remove", "mkdir", "syncdir"}

// crashAt runs a daemon, and stops it before a call of the file system that follows begin. The next
// daemon has the disk of a power cut, or of a kill, and runs for half an hour. check returns what is
// wrong then.
func crashAt(t *testing.T, call int, kill bool, made mistake, begin func(*testing.T, *Daemon, *scripts), check func(*faultfs.Mem) []string) (bad []string, hit bool) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, tgTrusted+"allow = [\"delegate:worker\"]\n[sessions]\ntitles = \"off\"\n")
		m.answer = "all passed"
		disk, calls := fs, 0
		var mu sync.Mutex
		hook := func(c faultfs.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(changes, c.Op) && !hit {
				return nil
			}
			switch calls++; {
			case calls < call:
				return nil
			case calls == call && kill:
				disk = fs.Kill()
			case calls == call:
				disk = fs.Crash()
			}
			hit = true
			return syscall.EIO
		}
		begin(t, d, m)
		fs.SetHook(hook)
		d.firingFor(t, 30*time.Minute)
		if err := d.Close(); err != nil && !hit {
			t.Error(err)
		}
		synctest.Wait()
		fs.SetHook(nil)
		spoil(t, disk, made)
		d, m = again(t, disk)
		m.answer = "all passed"
		d.firingFor(t, 20*time.Minute)
		bad = check(disk)
		if err := d.Close(); err != nil {
			t.Errorf("call %d: %v", call, err)
		}
	})
	return bad, hit
}

// cronDue adds an entry that is due in 5 minutes.
func cronDue(t *testing.T, d *Daemon, _ *scripts) {
	if _, err := addCron(t, d, op.NewCron{Schedule: "@every 60m", Prompt: "look", Deliver: "tg:7"}); err != nil {
		t.Fatal(err)
	}
	d.firingFor(t, 55*time.Minute)
}

// cronOnce returns an error unless the conversation receives the text of the run once, and its
// session contains the text, or the failure is visible, or the run did not begin.
func cronOnce(fs *faultfs.Mem) (bad []string) {
	got, states := texts(fs)
	if len(got) > 1 || len(got) == 0 && !slices.ContainsFunc(states, func(s string) bool { return strings.HasPrefix(s, "failed ") }) && bytes.Contains(sessions(fs), []byte(`"content":"look"`)) {
		bad = append(bad, fmt.Sprintf("texts %q, states %q", got, states))
	}
	return append(bad, missingTexts(fs, got)...)
}

// sessions returns all lines of sessions.
func sessions(fs *faultfs.Mem) (all []byte) {
	list, _ := fs.ReadDir(deliverHome + "/sessions")
	for _, e := range list {
		b, _ := vfs.ReadFile(fs, deliverHome+"/sessions/"+e.Name(), 1<<20)
		all = append(all, b...)
	}
	return all
}

// missingTexts returns an error for each text that no session contains.
func missingTexts(fs *faultfs.Mem, texts []string) (bad []string) {
	all := sessions(fs)
	for _, text := range texts {
		if _, text, _ := strings.Cut(text, ": "); !bytes.Contains(all, []byte(`"role":"assistant","content":"`+text)) {
			bad = append(bad, "no session contains "+text)
		}
	}
	return bad
}

// workRuns gives a task to a worker in the session of tg:7.
func workRuns(t *testing.T, d *Daemon, m *scripts) {
	t.Helper()
	m.mu.Lock()
	m.takes = time.Second // the worker does not end within the turn
	m.mu.Unlock()
	if got := d.say(t, "tg:7", `spawn_worker {"task":"outcome {\"text\":\"12 passed\"}"}`); !strings.HasPrefix(got, "w1 (worker) begins") {
		t.Fatal(got)
	}
}

// wakeOnce returns an error unless the conversation receives the answer of the wake once.
func wakeOnce(fs *faultfs.Mem) (bad []string) {
	got, states := texts(fs)
	if len(got) != 1 || got[0] != "tg:7 wake: all passed" {
		bad = append(bad, fmt.Sprintf("texts %q, states %q", got, states))
	}
	return append(bad, missingTexts(fs, got)...)
}

// TestDeliveryCrashes stops the daemon before each call of the file system between the start of a
// run and its delivery. The text reaches its conversation once, or the failure is visible.
func TestDeliveryCrashes(t *testing.T) {
	race.Skip(t)
	for name, of := range map[string]struct {
		begin func(*testing.T, *Daemon, *scripts)
		check func(*faultfs.Mem) []string
	}{"cron": {cronDue, cronOnce}, "wake": {workRuns, wakeOnce}} {
		first, step := seed.Slice(t, 4)
		points := 0
		for _, kill := range []bool{false, true} {
			for call := 1 + first; ; call += step {
				bad, hit := crashAt(t, call, kill, noMistake, of.begin, of.check)
				if len(bad) > 0 {
					t.Errorf("%s, call %d, kill %v: %s", name, call, kill, strings.Join(bad, "; "))
				}
				if !hit {
					break
				}
				points++
			}
		}
		t.Logf("%s: %d crashes", name, points)
		if points < 80/step {
			t.Errorf("%s: %d crashes", name, points)
		}
		for _, made := range []mistake{forgets, boxFirst} {
			found := false
			for call, hit := 1, true; hit && !found; call++ {
				var bad []string
				bad, hit = crashAt(t, call, true, made, of.begin, of.check)
				found = len(bad) > 0
			}
			if !found {
				t.Errorf("%s: not found: %s", name, made)
			}
		}
	}
}

// TestDeliverTargets checks targets when an entry is made: the platform, the allow list, and that
// another maker than the owner delivers to its own conversation only.
func TestDeliverTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, tgTrusted)
		defer d.Close()
		d.opts.Reaches = func(conversation string) error {
			if box.Identity(conversation) == "tg:9" {
				return fmt.Errorf("tg:9 is not listed")
			}
			return nil
		}
		for _, c := range []struct{ maker, target, want string }{
			{"", "tg:7", ""},
			{"", "tg:7/12", ""},
			{"", "hook:ann/x", ""},
			{"", "irc:7", `"irc:7" is not a conversation`},
			{"", "crab_user_1", "is not a conversation"},
			{"", "tg:9", "tg:9 is not listed"},
			{"cron", "tg:7", ""},
			{"cron-tg:7", "tg:7/12", ""},
			{"cron-tg:7", "tg:8", "tg:7 may not deliver to tg:8"},
			{"cron-hook:x/y", "tg:7", "hook:x/y may not deliver to tg:7"},
		} {
			in := op.NewCron{Schedule: "@hourly", Prompt: "x", Deliver: c.target}
			if c.maker != "" {
				in.Maker = &op.CronMaker{Agent: "crab", Sender: c.maker}
			}
			e, err := addCron(t, d, in)
			if got := fmt.Sprint(err); c.want == "" && (err != nil || e.Deliver != c.target) || !strings.Contains(got, c.want) {
				t.Errorf("%s to %s: %v", c.maker, c.target, err)
			}
			if e := errtable.Find(err); strings.Contains(c.want, "may not") && e.HTTP != http.StatusForbidden {
				t.Errorf("%+v", e)
			}
		}
		if _, err := addCron(t, d, op.NewCron{Schedule: "@hourly", Prompt: "x", Wake: true}); err == nil || !strings.Contains(err.Error(), "wake requires deliver") {
			t.Error(err)
		}
		// A person edits the file, or the list changes: the run has its session, and fails.
		for _, c := range d.crons.List() {
			if err := d.crons.Delete(c.ID); err != nil {
				t.Fatal(err)
			}
		}
		mustCreate(t, d, cron.Cron{Schedule: "@every 60m", Prompt: "x", SessionFile: cron.NewSession, Deliver: "tg:9"})
		m.requests()
		d.firingFor(t, time.Hour+time.Minute)
		if got := m.requests(); len(got) != 1 {
			t.Errorf("%d runs", len(got))
		}
		if c := d.crons.List()[0]; c.Failures != 1 {
			t.Errorf("%d failures", c.Failures)
		}
		wantTexts(t, fs)
		// The list changes during the run.
		m.takes = time.Minute
		c := d.crons.List()[0]
		c.Deliver = "tg:7"
		d.opts.Reaches = func(string) error {
			if n := len(boxes(fs)); n > 0 {
				return fmt.Errorf("tg:7 is not listed")
			}
			return nil
		}
		if err := d.runCron(t.Context(), c); err == nil || err.Error() != "tg:7 is not listed" {
			t.Error(err)
		}
		if got, states := texts(fs); got != nil || !slices.Equal(states, []string{"failed tg:7 is not listed"}) {
			t.Errorf("texts %q, states %q", got, states)
		}
	})
}

// TestDeliverOnce delivers the texts of a run in one text: not an answer that repeats the last
// reply, and not an empty one. The state of the delivery follows its parts.
func TestDeliverOnce(t *testing.T) {
	for model, want := range map[string]string{
		"news":                     "tg:7 cron: news",
		" ":                        "",
		`reply {"content":"news"}`: "tg:7 cron: news\n\nsaid",
		`reply {"content":"said"}`: "tg:7 cron: said", // the answer repeats it
	} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			d, m := channel(t, fs, "")
			defer d.Close()
			prompt := "x"
			if strings.HasPrefix(model, "reply") {
				prompt = model
			} else {
				m.answer = model
			}
			e, err := addCron(t, d, op.NewCron{Schedule: "@every 60m", Prompt: prompt, Deliver: "tg:7"})
			if err != nil {
				t.Fatal(err)
			}
			state := func() string {
				list, err := op.ListCrons.Do(t.Context(), op.Local{On: d.on(&request{ctx: t.Context()})}, op.None{})
				if err != nil || list[0].ID != e.ID || list[0].Failures != 0 {
					t.Fatalf("%+v, %v", list, err)
				}
				if list[0].Delivery == nil {
					return ""
				}
				return strings.TrimSpace(list[0].Delivery.State + " " + list[0].Delivery.Reason)
			}
			d.firingFor(t, time.Hour+time.Minute)
			if want == "" {
				wantTexts(t, fs)
				if got := state(); got != "empty" {
					t.Errorf("state %q", got)
				}
				return
			}
			wantTexts(t, fs, want)
			for _, of := range []struct{ part, want string }{{"", "pending"}, {"sending", "pending"}, {"sent", "sent"}} {
				if err := d.changeBox("tg:7", func(f *box.File) bool {
					if of.part != "" {
						f.Answers[0].State = box.State(of.part)
					}
					return true
				}); err != nil {
					t.Fatal(err)
				}
				if got := state(); got != of.want {
					t.Errorf("%s: %q", of.part, got)
				}
			}
		})
	}
}

// TestDeliverWork delivers the answers of a new session once its work has ended, in one text.
func TestDeliverWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, "")
		defer d.Close()
		m.answer, m.takes = "all passed", time.Second // the worker does not end within the turn
		if _, err := addCron(t, d, op.NewCron{Schedule: "@every 60m", Prompt: `spawn_worker {"task":"outcome {\"text\":\"12 passed\"}"}`, Deliver: "tg:7"}); err != nil {
			t.Fatal(err)
		}
		d.firingFor(t, time.Hour+time.Minute)
		wantTexts(t, fs, "tg:7 cron: w1 (worker) begins; its result goes to the conversation\n\nall passed")
	})
}

// TestDeliverWake adds the text to the newest session of the conversation, once, and runs no agent
// there.
func TestDeliverWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, tgTrusted)
		d.say(t, "tg:7", "hi")
		m.answer = "news"
		if _, err := addCron(t, d, op.NewCron{Schedule: "@every 60m", Prompt: "x", Deliver: "tg:7", Wake: true}); err != nil {
			t.Fatal(err)
		}
		m.requests()
		d.firingFor(t, time.Hour+time.Minute)
		if got := m.requests(); !slices.Equal(got, []string{"x"}) {
			t.Errorf("requests %q", got)
		}
		wantTexts(t, fs, "tg:7 cron: news")
		// A stop before the state was stored: the next start adds no second message.
		if err := d.changeBox("tg:7", func(f *box.File) bool {
			told := !f.Deliveries[0].Tell
			f.Deliveries[0].Tell = true
			return told
		}); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := vfs.MkdirAll(fs, deliverHome+"/work", 0o700); err != nil {
			t.Fatal(err)
		}
		fs.WriteFile(deliverHome+"/work/crab_tg-7_1", nil, 0o600) // as with open work: the text is not a result
		d, m = again(t, fs)
		defer d.Close()
		d.firingFor(t, time.Minute)
		if got := m.requests(); got != nil {
			t.Errorf("requests %q", got)
		}
		d.say(t, "tg:7", "which news?")
		m.mu.Lock()
		defer m.mu.Unlock()
		var all []string
		for _, message := range m.took[0].Messages {
			all = append(all, message.Content)
		}
		if n := strings.Count(strings.Join(all, "|"), "news\n"); n != 1 {
			t.Errorf("the session has the text %d times: %q", n, all)
		}
	})
}

// TestWakeOfTopic delivers the answer of a wake to the topic whose session gave out the work, and
// those of a session without a channel nowhere.
func TestWakeOfTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, tgTrusted+"allow = [\"delegate:worker\"]\n")
		defer d.Close()
		m.answer = "all passed"
		l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "crab", Sender: "tg:7"})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.changeBox("tg:7/12", func(f *box.File) bool { f.Session = l.StoredID(); return true }); err != nil {
			t.Fatal(err)
		}
		if err := d.changeBox("tg:7/12", func(f *box.File) bool { f.Session = "crab_tg-7_9"; return true }); err != nil { // /new
			t.Fatal(err)
		}
		workRuns(t, d, m)
		d.say(t, "user", `spawn_worker {"task":"outcome {\"text\":\"1 failed\"}"}`)
		time.Sleep(time.Minute)
		wantTexts(t, fs, "tg:7/12 wake: all passed")
	})
}

// TestWakeWithinRequest omits the text of a wake that is the answer to a request, which its client
// repeats, and receives then.
func TestWakeWithinRequest(t *testing.T) {
	const meta, user, failed = `{"agent":"crab","created_by":"tg:7","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}`, `{"role":"user","content":"hi","request":"r1"}`, `{"turn":{"failed":"provider","error":"x"}}`
	const wake = `{"role":"user","content":"results","work":["w1.1"]}` + "\n" + `{"role":"assistant","content":"all passed"}`
	const interrupted = `{"turn":{"failed":"interrupted","error":"x"}}`
	for name, c := range map[string]struct {
		lines   []string
		waits   bool
		deliver bool
	}{
		"after an answer":        {[]string{user, `{"role":"assistant","content":"hello"}`, wake}, true, true},
		"after a failure":        {[]string{user, failed, wake}, false, true},
		"of a waiting message":   {[]string{user, failed, wake}, true, false},
		"after an interruption":  {[]string{user, interrupted, wake}, false, false},
		"without an answer":      {[]string{user, failed, `{"role":"user","content":"results","work":["w1.1"]}`}, false, false},
		"after an interrupted c": {[]string{strings.Replace(user, "r1", "c5.1", 1), interrupted, wake}, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			d, _ := channel(t, fs, tgTrusted)
			defer d.Close()
			if err := vfs.MkdirAll(fs, deliverHome+"/sessions", 0o700); err != nil {
				t.Fatal(err)
			}
			fs.WriteFile(deliverHome+"/sessions/crab_tg-7_1.jsonl", []byte(strings.Join(append([]string{meta}, c.lines...), "\n")+"\n"), 0o600)
			if err := d.changeBox("tg:7", func(f *box.File) bool {
				if f.Session = "crab_tg-7_1"; c.waits {
					f.Waiting = []box.Message{{ID: "r1"}}
				}
				f.Owe(box.Delivery{Source: f.Session, Key: "w1.1", Session: f.Session})
				return true
			}); err != nil {
				t.Fatal(err)
			}
			d.recoverWakes()
			got, states := texts(fs)
			if want := c.deliver; (len(got) == 1) != want {
				t.Errorf("%s: texts %q, states %q", name, got, states)
			}
		})
	}
}
