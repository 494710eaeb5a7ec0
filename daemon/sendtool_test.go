package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/box"
	"crabmem/daemon/model"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/fuzz/race"
)

// sends is the configuration of an agent with the tool send.
const sends = "tools = [\"send\"]\n"

// TestSendTool sends a text to a conversation that a channel serves. A call without the permission,
// or to another target, adds no text.
func TestSendTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, sends+tgTrusted+"[origins.\"tg:8\"]\ntrust = \"admin\"\n[origins.\"hook:\"]\ntrust = \"untrusted\"\n[agents.free]\nrole = \"channel\"\n[agents.all]\nrole = \"channel\"\ntools = [\"s*\", \"ask_user\"]\n")
		defer d.Close()
		d.opts.Reaches = func(conversation string) error {
			if box.Identity(conversation) == "tg:9" {
				return fmt.Errorf("tg:9 is not listed")
			}
			return nil
		}
		for _, c := range []struct{ agent, sender, args, want string }{
			{"crab", "tg:7", `"to":"tg:7","content":"a"`, "tool not available: send"},
			{"crab", "hook:x/y", `"to":"hook:x/y","content":"a"`, "tool not available: send"},
			{"free", "user", `"to":"tg:7","content":"a"`, "tool not available: send"},
			{"all", "user", `"to":"tg:7","content":"a"`, "tool not available: send"},
			{"crab", "user", `"to":"irc:7","content":"a"`, `deliver: "irc:7" is not a conversation: want tg:ID, tg:ID/TOPIC, or hook:KEY/ID`},
			{"crab", "user", `"to":"tg:9","content":"a"`, "deliver: tg:9 is not listed"},
			{"crab", "user", `"to":"tg:7","content":" "`, "content has 1 bytes, want 1 to 65536"},
			{"crab", "user", `"to":"tg:7","content":"` + strings.Repeat("a", 64<<10+1) + `"`, "content has 65537 bytes, want 1 to 65536"},
		} {
			l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: c.agent, Sender: c.sender})
			if err != nil {
				t.Fatal(err)
			}
			run := session.Run{Session: l, Content: "send {" + c.args + "}", Sender: c.sender}
			if err := d.loaded.Run(t.Context(), &run); err != nil || run.Answer != c.want {
				t.Errorf("%s as %s: %q, %v, want %q", c.agent, c.sender, run.Answer, err, c.want)
			}
		}
		wantTexts(t, fs)
		m.requests()
		if got := d.say(t, "user", `send {"to":"tg:7/12","content":"news"}`); got != "accepted for tg:7/12" {
			t.Error(got)
		}
		m.mu.Lock()
		tools := toolNames(m.took[0].Tools)
		m.mu.Unlock()
		if !strings.Contains(tools, "send") {
			t.Errorf("tools %s", tools)
		}
		if got := d.say(t, "tg:8", `send {"to":"tg:7","content":"news"}`); got != "accepted for tg:7" {
			t.Error(got)
		}
		got, states := texts(fs)
		if slices.Sort(got); !slices.Equal(got, []string{"tg:7 send: news", "tg:7/12 send: news"}) || !slices.Equal(states, []string{"pending ", "pending "}) {
			t.Errorf("texts %q, states %q", got, states)
		}
	})
}

// TestMayDeliver: each identity that takes part in a text must be an admin, or own the target.
func TestMayDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := channel(t, faultfs.NewMem(), tgTrusted+"[origins.\"tg:8\"]\ntrust = \"admin\"\n")
		defer d.Close()
		for _, c := range []struct {
			makers []string
			want   bool
		}{{[]string{"user", "tg:8"}, true}, {[]string{"user", "tg:7"}, true}, {[]string{"work-tg:7", "tg:7"}, true}, {[]string{"user", "tg:6"}, false}, {[]string{"tg:6", "user"}, false}, {[]string{"cron-tg:6"}, false}, {[]string{"work-tg:6", "tg:7"}, false}, {[]string{"hook:x/y"}, false}} {
			if err := d.mayDeliver("tg:7/3", c.makers...); (err == nil) != c.want {
				t.Errorf("%q: %v", c.makers, err)
			}
		}
	})
}

// TestSendOnce adds a text once for a request, and again for the next one. A conversation that
// does not receive its texts takes 20.
func TestSendOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, _ := channel(t, fs, sends)
		defer d.Close()
		call := func(request, text string) string {
			l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "crab", Sender: "user"})
			if err != nil {
				t.Fatal(err)
			}
			run := session.Run{Session: l, Sender: "user", Request: request, Content: fmt.Sprintf(`send {"to":"tg:7","content":%q}`, text)}
			if err := d.loaded.Run(t.Context(), &run); err != nil {
				t.Fatal(err)
			}
			return run.Answer
		}
		if got := call("r1", "news"); got != "accepted for tg:7" {
			t.Error(got)
		}
		wantTexts(t, fs, "tg:7 send: news")
		if got := call("r2", "news"); got != "accepted for tg:7" {
			t.Error(got)
		}
		for i := range 19 {
			call(fmt.Sprint("s", i), fmt.Sprint(i))
		}
		if got := call("r3", "more"); got != "20 texts wait for tg:7: send it later" {
			t.Error(got)
		}
		if err := d.changeBox("tg:7", func(f *box.File) bool { f.Answers[2].State = box.Sent; return true }); err != nil {
			t.Fatal(err)
		}
		if got := call("r4", "more"); got != "accepted for tg:7" {
			t.Error(got)
		}
	})
}

// sendDue adds an entry that is due in 5 minutes, whose run sends a text.
func sendDue(t *testing.T, d *Daemon, _ *scripts) {
	if _, err := addCron(t, d, op.NewCron{Schedule: "@every 60m", Prompt: `send {"to":"tg:7","content":"all passed"}`}); err != nil {
		t.Fatal(err)
	}
	d.firingFor(t, 55*time.Minute)
}

// repeats is a model that sends a text until a call has a result that says so.
type repeats struct{ scripts }

func (r *repeats) Stream(_ context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		last := q.Messages[len(q.Messages)-1].Content
		if strings.HasPrefix(last, "accepted") || strings.HasSuffix(last, "has this text already") {
			yield(model.Chunk{Content: last, Finish: "stop"}, nil)
			return
		}
		yield(model.Chunk{Finish: "tool_calls", Calls: []model.CallDelta{{ID: fmt.Sprint(len(q.Messages)), Name: "send", Arguments: `{"to":"tg:7","content":"news"}`}}}, nil)
	}
}

// request sends a request to a daemon on a disk.
func (r *repeats) request(t *testing.T, fs *faultfs.Mem, before func()) error {
	d, err := Open(Options{Home: deliverHome, FS: fs, Getenv: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler), Offline: r})
	if err != nil {
		return err
	}
	before()
	l, err := d.loaded.Resolve(t.Context(), &session.Request{Agent: "crab", Sender: "user"})
	if err == nil {
		err = d.loaded.Run(t.Context(), &session.Run{Session: l, Sender: "user", Request: "r1", Content: "go"})
	}
	return errors.Join(err, d.Close())
}

// TestSendCrashes stops the daemon before each call of the file system in a run that sends a text,
// and repeats the request. The conversation receives the text once, although the model sends it
// again if it has no result.
func TestSendCrashes(t *testing.T) {
	race.Skip(t)
	points, again := 0, 0
	for _, kill := range []bool{false, true} {
		for call, hit := 1, true; hit; call++ {
			hit = false
			synctest.Test(t, func(t *testing.T) {
				fs := faultfs.NewMem()
				d, _ := channel(t, fs, sends+"[sessions]\ntitles = \"off\"\n")
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				disk, calls := fs, 0
				var mu sync.Mutex
				_ = (&repeats{}).request(t, fs, func() {
					fs.SetHook(func(c faultfs.Call) error {
						mu.Lock()
						defer mu.Unlock()
						if !slices.Contains(changes, c.Op) && !hit {
							return nil
						}
						if calls++; calls < call {
							return nil
						}
						if calls == call && kill {
							disk = fs.Kill()
						} else if calls == call {
							disk = fs.Crash()
						}
						hit = true
						return syscall.EIO
					})
				})
				fs.SetHook(nil)
				before, _ := texts(disk)
				if err := (&repeats{}).request(t, disk, func() {}); err != nil {
					t.Errorf("call %d, kill %v: %v", call, kill, err)
				}
				if hit && len(before) > 0 && bytes.Contains(sessions(disk), []byte("has this text already")) {
					again++
				}
				wantTexts(t, disk, "tg:7 send: news")
			})
			points++
		}
	}
	t.Logf("%d crashes, %d repeated calls", points, again)
	if points < 40 || again == 0 {
		t.Errorf("%d crashes, %d repeated calls", points, again)
	}
}

// TestSendCron: a cron entry's run and a worker send a text.
func TestSendCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, m := channel(t, fs, sends+"[sessions]\ntitles = \"off\"\n[agents.worker]\ntools = [\"send\"]\n")
		defer d.Close()
		sendDue(t, d, nil)
		d.firingFor(t, time.Hour)
		wantTexts(t, fs, "tg:7 send: all passed")
		m.mu.Lock()
		m.takes = time.Second
		m.mu.Unlock()
		d.say(t, "user", `spawn_worker {"task":"send {\"to\":\"tg:8\",\"content\":\"12 passed\"}"}`)
		time.Sleep(time.Minute)
		if got, _ := texts(fs); !slices.Contains(got, "tg:8 send: 12 passed") {
			t.Errorf("texts %q", got)
		}
	})
}
