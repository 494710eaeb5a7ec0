package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/box"
	messenger "crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/space"
	"crabmem/daemon/trust"
	"crabmem/daemon/wire/pb"
)

// chatGroup is the group's chat ID.
const chatGroup = -100

// chatBreak is a mistake that the model must find.
type chatBreak string

const (
	noBreak     chatBreak = ""
	groupCounts chatBreak = "the identity of the group decides for a private chat"
	keepsSpace  chatBreak = "an unpaired person keeps its space"
	losesMaker  chatBreak = "a cron runs as cron, without its maker"
)

// chatWorld is a home with a daemon and a channel to a fake Bot API.
type chatWorld struct {
	t     *testing.T
	seed  uint64
	rand  *rand.Rand
	made  chatBreak
	fs    *faultfs.Mem
	api   *telegramtest.API
	model *chatModel
	quiet *slog.Logger

	d           atomic.Pointer[Daemon] // nil: stopped
	serving     context.Context        // ends before the daemon stops
	stopDaemon  func()
	stopAdapter func()     // nil: stopped
	access      sync.Mutex // guards rules, listed, and kept
	rules       trust.Rules
	listed      []int64 // allowed_users
	role        string
	open        bool // the group reads all senders
	boundary    string
	pairing     []string // words of the rule of the open pairing
	kept        []string // identities that a mistake kept
}

// newChatWorld writes a home's configuration. group is the group's rule, or empty.
func newChatWorld(t *testing.T, seed uint64, made chatBreak) *chatWorld {
	w := &chatWorld{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 3)), made: made, fs: faultfs.NewMem(), quiet: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1}))}
	w.api = telegramtest.New(func(err error) {
		w.model.mu.Lock()
		defer w.model.mu.Unlock()
		w.model.fail("bot: %v", err)
	})
	w.role = []string{"", "channel"}[w.rand.IntN(2)]
	w.open = w.rand.IntN(2) == 0
	w.boundary = []string{"one", "idle 30m"}[w.rand.IntN(2)]
	w.model = newChatModel(w)
	text := "[sessions]\ntitles = \"off\"\n[system.crab]\nrole = \"" + w.role + "\"\n"
	if words := []string{"", "trusted", "trusted delegate:worker", "untrusted recall remember branch", "untrusted recall", "admin"}[w.rand.IntN(6)]; words != "" {
		w.model.standing[w.groupName()] = strings.Fields(words)
		text += "[origins.\"" + w.groupName() + "\"]\n" + w.ruleOf(words) + "\n"
	}
	for identity, words := range map[string]string{"tg:7": "admin", "tg:8": "trusted delegate:worker"} {
		if seed%3 > 0 {
			w.model.standing[identity] = strings.Fields(words)
			text += "[origins.\"" + identity + "\"]\n" + w.ruleOf(words) + "\n"
		}
	}
	groups := "[[groups]]\nid = -100\n"
	if w.open {
		groups += "senders = \"all\"\n"
	}
	if w.rand.IntN(3) == 0 {
		w.listed = []int64{8}
	}
	users := strings.ReplaceAll(fmt.Sprint(w.listed), " ", ", ")
	w.check(vfs.MkdirAll(w.fs, "/home/crab/config", 0o700))
	w.check(vfs.WriteFile(w.fs, "/home/crab/config.toml", 0o600, []byte(text)))
	w.check(vfs.WriteFile(w.fs, "/home/crab/"+telegram.File, 0o600, []byte("token = \""+telegramtest.Token+"\"\napi = \"http://telegram.test\"\npoll_timeout = 300\nstreaming = \"off\"\nallowed_users = "+users+"\n"+groups)))
	return w
}

func (w *chatWorld) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

// groupName returns the group's identity.
func (w *chatWorld) groupName() string {
	if w.open {
		return fmt.Sprint("tg-open:", chatGroup)
	}
	return fmt.Sprint("tg:", chatGroup)
}

// ruleOf returns the lines of a table for the words of a standing.
func (w *chatWorld) ruleOf(words string) string {
	list := strings.Fields(words)
	text := "trust = \"" + list[0] + "\"\n"
	if len(list) > 1 {
		text += "allow = " + quotedList(list[1:]) + "\n"
	}
	return text
}

// startDaemon runs a daemon until stopDaemon.
func (w *chatWorld) startDaemon() {
	d, err := Open(Options{Home: deliverHome, FS: w.fs, Getenv: func(string) string { return "" }, Log: w.quiet, Offline: w.model, Hooks: agent.Hooks{BeforeRun: w.model.begin},
		Reaches: func(conversation string) error {
			return telegram.Accepts(w.fs, deliverHome, conversation, w.d.Load().setup().config.Origins)
		}})
	w.check(err)
	firing, stopFiring := context.WithCancelCause(context.Background())
	serving, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.serving = serving
	w.d.Store(d)
	go func() { // until stopFiring
		d.firing.run(firing)
		close(done)
	}()
	w.stopDaemon = func() {
		stopFiring(errStopping)
		<-done
		stop()
		synctest.Wait()
		w.d.Store(nil)
		w.check(d.Close())
		synctest.Wait()
		if w.made == losesMaker {
			w.spoilCrons()
		}
	}
	w.readRules(d)
}

// readRules sets the rules of now.
func (w *chatWorld) readRules(d *Daemon) {
	w.access.Lock()
	defer w.access.Unlock()
	w.rules = d.setup().config.Origins
}

var (
	chatMaker   = regexp.MustCompile(`(?m)^(sender|scope) = .*\n`)
	chatSession = regexp.MustCompile(`(?m)^session_file = .*$`)
)

// spoilCrons changes the table of entries as a daemon without makers would.
func (w *chatWorld) spoilCrons() {
	b, err := vfs.ReadFile(w.fs, deliverHome+"/crons.toml", 1<<20)
	if err != nil {
		return // no entry
	}
	tables := strings.SplitAfter(string(b), "[[cron]]\n")
	for i, table := range tables {
		if chatMaker.MatchString(table) {
			tables[i] = chatSession.ReplaceAllString(chatMaker.ReplaceAllString(table, ""), "session_file = \"new\"")
		}
	}
	w.fs.WriteFile(deliverHome+"/crons.toml", []byte(strings.Join(tables, "")), 0o600)
}

// startAdapter runs a channel until stopAdapter.
func (w *chatWorld) startAdapter() {
	conf, err := telegram.ReadConfig(w.fs, deliverHome, nil)
	w.check(err)
	boundary, err := messenger.ParseBoundary(w.boundary)
	w.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	p := telegram.New(&conf, w.quiet, w.api.Transport())
	p.TypingTime = time.Minute // the requests have no effect
	go func() {                // until cancel
		ended <- messenger.Run(ctx, messenger.Options{FS: w.fs, Home: deliverHome, Log: w.quiet, Now: time.Now, Allowed: w.users, Pair: w.pair,
			Session: func(string, bool) messenger.Boundary { return boundary },
			About:   func(identity string) string { return "You are " + identity + "." },
			Level:   w.level,
			Daemon:  func(identity string) (op.Caller, func()) { return chatCaller{w, identity}, func() {} }}, p)
	}()
	w.stopAdapter = func() {
		cancel()
		w.check(<-ended)
		w.stopAdapter = nil
	}
}

// users returns the bot's users, as crabmem telegram does.
func (w *chatWorld) users() []string {
	w.access.Lock()
	defer w.access.Unlock()
	conf := telegram.Config{AllowedUsers: w.listed}
	return slices.DeleteFunc(conf.Users(w.rules), func(id string) bool { return slices.Contains(w.kept, "tg:"+id) })
}

// level returns the trust in an identity.
func (w *chatWorld) level(identity string) trust.Level {
	w.access.Lock()
	defer w.access.Unlock()
	return w.rules.Level(identity)
}

// lists reports whether allowed_users has an ID.
func (w *chatWorld) lists(id int64) bool {
	w.access.Lock()
	defer w.access.Unlock()
	return slices.Contains(w.listed, id)
}

// pair makes a sender with the code of the open pairing a user, as crabmem telegram does.
func (w *chatWorld) pair(sender, text string) bool {
	ok, err := messenger.Redeem(w.fs, deliverHome, box.Telegram, text, time.Now(), func(rule json.RawMessage) error {
		return w.setOrigin(telegram.Identity(sender), string(rule))
	})
	return ok && err == nil
}

// setOrigin writes an identity's table, or removes it if rule is null.
func (w *chatWorld) setOrigin(identity, rule string) error {
	w.access.Lock()
	i := slices.Index(w.kept, identity)
	if i >= 0 {
		w.kept = slices.Delete(w.kept, i, i+1)
	}
	w.access.Unlock()
	if i >= 0 {
		w.check(w.setOrigin(identity, "null"))
	}
	change := op.ConfigChange{Keys: []config.Pair{{Key: "origins." + identity, Value: rule}}}
	d := w.d.Load()
	if d == nil {
		return &client.NoDaemonError{}
	}
	_, err := d.changeConfig(&change)
	w.readRules(d)
	if w.model.change(identity, nil); rule != "null" {
		w.model.change(identity, w.pairing)
	}
	return err
}

// unpair removes a user, as crabmem channels unpair does.
func (w *chatWorld) unpair(id int64) {
	identity := fmt.Sprint("tg:", id)
	if w.lists(id) {
		w.check(telegram.RemoveUser(w.fs, deliverHome, identity))
		w.access.Lock()
		w.listed = nil
		w.access.Unlock()
	}
	if w.made == keepsSpace {
		w.access.Lock()
		w.kept = append(w.kept, identity)
		w.access.Unlock()
	} else if w.model.standing[identity] != nil {
		w.check(w.setOrigin(identity, "null"))
	}
	owner := chatCaller{w, ""}
	infos, err := w.d.Load().sessions.List()
	w.check(err)
	var sessions []string
	for i := range infos {
		if infos[i].Meta.CreatedBy == identity {
			sessions = append(sessions, infos[i].ID)
		}
	}
	_, err = client.CancelWork(context.Background(), owner, sessions)
	w.check(err)
}

// chatCaller carries out operations of an identity in the daemon, as a client does.
type chatCaller struct {
	*chatWorld
	as string
}

func (c chatCaller) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	d := c.d.Load()
	if d == nil || c.serving.Err() != nil {
		return &client.NoDaemonError{}
	}
	if m, ok := in.(*op.Message); ok && c.made == groupCounts {
		m.Sender = c.groupName()
	}
	head, err := op.Encode(op.Header{As: c.as})
	c.check(err)
	body, err := op.Encode(in)
	c.check(err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.serving, cancel)()
	var got []byte
	var failed error
	d.Handle(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Call{Call: &pb.Call{Op: row.Name, Head: head, Body: body}}}, func(m *pb.ServerMessage) error {
		r := m.GetResult()
		if b := r.GetError(); len(b) > 0 {
			e := &op.Error{Family: row.Family}
			failed = cmp.Or(op.Decode(b, e), error(e))
			return nil
		}
		if failed != nil || row.Parts && !r.GetMore() {
			return failed
		}
		if got = append(got, r.GetBody()...); r.GetPartial() {
			return nil
		}
		if failed = op.Decode(got, out); failed == nil {
			failed = part()
		}
		got = nil
		return failed
	})
	if c.serving.Err() != nil {
		return &client.NoDaemonError{}
	}
	return cmp.Or(failed, ctx.Err())
}

// notes returns the entries of all spaces, as IDENTITY NAME CONTENT. The space main is the user's.
func (w *chatWorld) notes() (list []string) {
	d := w.d.Load()
	for _, identity := range []string{session.User, "tg:7", "tg:8", "tg:9", w.groupName()} {
		name := space.Main
		if identity != session.User {
			name = space.OfSender(identity)
		}
		err := d.inSpace(name, func(s *crmem.Store) error {
			for e := range s.All() {
				list = append(list, identity+" "+e.Name+" "+e.Content)
			}
			return nil
		})
		if !space.IsUnwritten(name, err) {
			w.check(err)
		}
	}
	slices.Sort(list)
	return list
}
