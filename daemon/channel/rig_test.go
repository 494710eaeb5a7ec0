package channel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

const home = "/home/crab"

// daemon is a daemon that answers messages as the real one: a request is one turn of a
// session, however often it is sent.
type daemon struct {
	mu       sync.Mutex
	lines    []string // messages, as session user: text
	answers  map[string]op.Answer
	sessions map[string][]string // by identity
	loaded   []op.Session
	calls    int
	// reply returns the answer to a message. nil: the text in capitals.
	reply func(ctx context.Context, m *op.Message) (string, error)
	slow  time.Duration // of a run
	// lose makes the next responses get lost after the run.
	lose int
}

func (d *daemon) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch row.Name {
	case "runs.send":
		a, err := d.send(ctx, in.(*op.Message))
		*out.(*op.Answer) = a
		if err != nil {
			return err
		}
	case "sessions.loaded":
		*out.(*[]op.Session) = d.loaded
	case "work.list":
	default:
		return fmt.Errorf("unexpected operation %s", row.Name)
	}
	return part()
}

func (d *daemon) send(ctx context.Context, m *op.Message) (op.Answer, error) {
	d.mu.Lock()
	d.calls++
	a, repeated := d.answers[m.Request]
	if !repeated {
		a = op.Answer{Session: m.Session}
		own := d.sessions[m.Sender]
		switch {
		case m.New || a.Session == "" && len(own) == 0:
			a.Session = fmt.Sprintf("crab_%s_%d", strings.ReplaceAll(m.Sender, ":", "-"), len(own)+1)
			d.sessions[m.Sender] = append(own, a.Session)
		case a.Session == "":
			a.Session = own[len(own)-1]
		}
		if d.answers == nil {
			d.answers = make(map[string]op.Answer)
		}
		d.answers[m.Request] = a
		d.lines = append(d.lines, a.Session+": "+m.Content)
	}
	slow := d.slow
	d.mu.Unlock()
	channel.Pause(ctx, slow)
	text, err := strings.ToUpper(m.Content), error(nil)
	if d.reply != nil {
		text, err = d.reply(ctx, m)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lose > 0 {
		d.lose--
		return op.Answer{}, errors.New("the connection ended")
	}
	a.Content = text
	return a, err
}

// rig is a channel to a fake Bot API, with a fake daemon, in a bubble.
type rig struct {
	t       *testing.T
	m       *faultfs.Mem
	api     *telegramtest.API
	d       *daemon
	log     bytes.Buffer // read it while the channel does not run
	session string
	down    bool // no daemon answers
	ignores bool // messages need not be stored
	stop    func() error
	change  func(*channel.Platform) // nil: no change
	allowed []string                // users
	rule    string                  // of the last pairing
	refuse  error                   // pairings fail with it
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
	r := &rig{t: t, m: faultfs.NewMem(), d: &daemon{sessions: make(map[string][]string)}, session: "one", allowed: []string{"7", "8"}}
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
	Waiting      []struct{ ID, Content string }
	Done         []struct{ ID string }
	Answers      []struct{ Content, State, Kind, Remote string }
	Turn         *struct{ IDs []string }
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
	p := telegram.New(&telegram.Config{Token: telegramtest.Token, PollTimeout: 30, API: "http://telegram.test"}, log, r.api.Transport())
	if r.change != nil {
		r.change(p)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { // until cancel
		ended <- channel.Run(ctx, channel.Options{FS: r.m, Home: home, Log: log, Now: time.Now, Allowed: func() []string { return r.allowed }, Session: boundary,
			About: func(identity string) string { return "You are " + identity + "." }, Pair: r.pair,
			Daemon: func(string) (op.Caller, func()) {
				if r.down {
					return noDaemon{}, func() {}
				}
				return r.d, func() {}
			}}, p)
	}()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	synctest.Wait()
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

type noDaemon struct{}

func (noDaemon) Call(context.Context, *op.Row, any, any, func() error) error {
	return &client.NoDaemonError{}
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

// want compares the texts that the bot sent.
func (r *rig) want(texts ...string) {
	r.t.Helper()
	if got := r.sent(); !slices.Equal(got, texts) {
		r.t.Errorf("sent %q, want %q", got, texts)
	}
}

func (r *rig) lines(want ...string) {
	r.t.Helper()
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if !slices.Equal(r.d.lines, want) {
		r.t.Errorf("messages of the sessions: %q, want %q", r.d.lines, want)
	}
}
