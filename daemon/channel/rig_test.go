package channel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/trust"
)

func init() {
	if name := os.Getenv("CRABMEM_TELEGRAM_RECORD"); name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err) // the layer must not pass without the record
		}
		telegramtest.Record = f
	}
}

const home = "/home/crab"

// rig is a channel to a fake Bot API, with a fake daemon, in a bubble.
type rig struct {
	t       *testing.T
	m       *faultfs.Mem
	api     *telegramtest.API
	d       *daemon
	log     bytes.Buffer // read it while the channel does not run
	session string
	format  string
	down    atomic.Bool // no daemon answers
	ignores bool        // messages need not be stored
	spaced  bool        // texts wait as the API advises
	stop    func() error
	change  func(*channel.Platform) // nil: no change
	allowed []string                // users
	groups  []telegram.Group
	routes  []telegram.Route
	trusted []string // identities
	admins  []string // identities
	rule    string   // of the last pairing
	refuse  error    // pairings fail with it
}

// bubble calls f with a rig whose channel does not run yet.
func bubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f(r)
		if r.stop != nil {
			if err := r.stop(); err != nil {
				t.Errorf("channel: %v", err)
			}
		}
		if strings.Contains(r.log.String(), "planted") {
			t.Errorf("the log contains the token:\n%s", r.log.String())
		}
	})
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, m: faultfs.NewMem(), session: "one", trusted: []string{"tg:7"}, allowed: []string{"7", "8"}, d: &daemon{sessions: make(map[string][]string), requests: make(map[string]bool), created: make(map[string]string),
		pending: make(map[uint64]chan string), results: make(map[string]string), texts: make(map[string]string), events: make(chan agent.Event)}}
	if err := vfs.MkdirAll(r.m, home, 0o700); err != nil {
		t.Fatal(err)
	}
	r.api = telegramtest.New(func(err error) { t.Errorf("bot: %v", err) })
	r.api.Confirmed = func(chat, message int64) error {
		if !r.stored(chat, message) {
			return fmt.Errorf("message %d is confirmed, but a crash would lose it", message)
		}
		return nil
	}
	return r
}

// ids returns the IDs in a chat's file on a disk.
func ids(m *faultfs.Mem, chat int64) (list []string) {
	for _, f := range files(m) {
		if f.Conversation == fmt.Sprint("tg:", chat) {
			for _, w := range f.Waiting {
				list = append(list, w.ID)
			}
			for _, d := range f.Done {
				list = append(list, d.ID)
			}
		}
	}
	return list
}

// file is a channel file.
type file struct {
	Conversation string
	Questions    []struct{ State, Remote string }
	Waiting      []struct{ ID, Content string }
	Done         []struct{ ID string }
	Answers      []struct {
		Content, State, Kind, Remote string
		ReplyTo                      string `json:"reply_to"`
		Live                         bool
	}
	Turn *struct{ IDs []string }
}

func files(m *faultfs.Mem) (list []file) {
	entries, _ := m.ReadDir(home + "/telegram")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b, err := vfs.ReadFile(m, home+"/telegram/"+e.Name(), 1<<20)
		var f file
		if err == nil && json.Unmarshal(b, &f) == nil {
			list = append(list, f)
		}
	}
	return list
}

// stored reports whether a message survives a power cut. Messages of user 7 are allowed.
func (r *rig) stored(chat, message int64) bool {
	return r.ignores || chat != 7 && chat != 8 || slices.Contains(ids(r.m.Crash(), chat), idOf(chat, message))
}

// start runs the channel until r.stop.
func (r *rig) start() {
	r.t.Helper()
	boundary, err := channel.ParseBoundary(r.session)
	if err != nil {
		r.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := telegram.New(&telegram.Config{Token: telegramtest.Token, Groups: r.groups, Routes: r.routes, PollTimeout: 30, Format: r.format, API: "http://telegram.test"}, log, r.api.Transport())
	if !r.spaced {
		p.Wait = func(string) time.Duration { return 0 }
	}
	if r.change != nil {
		r.change(p)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { // until cancel
		ended <- channel.Run(ctx, channel.Options{FS: r.m, Home: home, Log: log, Now: time.Now, Allowed: func() []string { return r.allowed }, Session: func(string, bool) channel.Boundary { return boundary },
			About: func(identity string) string { return "You are " + identity + "." }, Pair: r.pair,
			Level: r.level,
			Daemon: func(identity string) (op.Caller, func()) {
				return maybe{r, identity}, func() {}
			}}, p)
	}()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	synctest.Wait()
}

// level returns the trust in an identity.
func (r *rig) level(identity string) trust.Level {
	switch {
	case slices.Contains(r.admins, identity):
		return trust.Admin
	case slices.Contains(r.trusted, identity):
		return trust.Trusted
	}
	return trust.Untrusted
}

// pair makes a sender with the code of the open pairing a user.
func (r *rig) pair(sender, text string) bool {
	ok, err := channel.Redeem(r.m, home, "telegram", text, time.Now(), func(rule json.RawMessage) error {
		if r.refuse != nil {
			return r.refuse
		}
		r.rule, r.allowed = string(rule), append(r.allowed, sender)
		return nil
	})
	if err != nil && !errors.Is(err, r.refuse) {
		r.t.Errorf("redeem: %v", err)
	}
	return ok
}

// maybe calls the daemon, unless it is down.
type maybe struct {
	*rig
	identity string
}

func (m maybe) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	if m.down.Load() {
		return &client.NoDaemonError{}
	}
	if row.Name == "work.answer" {
		return m.d.answerWork(m.identity, in.(*op.WorkAnswer))
	}
	return m.d.Call(ctx, row, in, out, part)
}

// restart ends the channel, and starts it with the disk that a power cut leaves.
func (r *rig) restart() {
	r.t.Helper()
	if err := r.stop(); err != nil {
		r.t.Errorf("channel: %v", err)
	}
	r.m = r.m.Crash()
	r.start()
}

// sent returns the texts that the bot sent.
func (r *rig) sent() (list []string) {
	synctest.Wait()
	for _, s := range r.api.Sent() {
		list = append(list, s.Text)
	}
	return list
}

// pic is the line about a picture. In texts that a test wants, @ stands for it.
const pic = "\n[channel: photo, 2.0 KiB]"

// missing is the notice about a text of one part with an unknown outcome.
const missing = "Part 1 of 1 of this answer may be missing: its delivery was not confirmed."

// privateMessage returns the fields of a user's message in a private chat.
func privateMessage(user int64) fields {
	return fields{"from": fields{"id": user}, "chat": fields{"id": user, "type": "private"}}
}

// want compares the texts that the bot sent.
func (r *rig) want(texts ...string) {
	r.t.Helper()
	for i := range texts {
		texts[i] = strings.ReplaceAll(texts[i], "@", strings.ToUpper(pic))
	}
	if got := r.sent(); !slices.Equal(got, texts) {
		r.t.Errorf("sent %q, want %q", got, texts)
	}
}

func (r *rig) lines(want ...string) {
	r.t.Helper()
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "@", pic)
	}
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if !slices.Equal(r.d.lines, want) {
		r.t.Errorf("messages of the sessions: %q, want %q", r.d.lines, want)
	}
}
