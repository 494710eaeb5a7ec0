package kill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/box"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/model/modeltest"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const (
	channelUsers    = 4 // with a conversation each
	channelMessages = 3 // of each
	channelNotice   = "may be missing"
)

// channelKills counts the results of killed channels.
type channelKills struct {
	mu                          sync.Mutex
	kills, turns, sent, unknown int
}

// channelMoment is when a process is killed: pause after a request of that number, to the API
// or to the model.
type channelMoment struct {
	victim, counted int // one of processes, and of requests
	request         int
	pause           time.Duration
}

// The processes of a round, and the requests that it counts.
const (
	channelProcess = iota
	daemonProcess

	toAPI   = channelProcess
	toModel = daemonProcess
)

// channelRound is a home whose channel and daemon are killed while four people write.
type channelRound struct {
	t       *testing.T
	exe     string
	home    string
	moments []channelMoment
	api     *telegramtest.API

	mu       sync.Mutex
	requests [2]int
	written  [channelUsers + 1]int
	running  [2]*exec.Cmd
	stderr   [2]bytes.Buffer
	failed   bool
}

// TestKillChannel kills crabmem telegram and the daemon at their requests. Each message
// of four people is in exactly one user line, and each line has one answer, which the bot sent
// once, or about which it sent a notice.
//
//	CRABMEM_CHANNEL_KILLS=N   N homes, each with one to three kills
func TestKillChannel(t *testing.T) {
	n := count(t, "CRABMEM_CHANNEL_KILLS", rounds(4, 100))
	rng := seed.Random(t)
	exe := command(t)
	k := &channelKills{}
	clean := k.round(t, exe, nil)
	next := make(chan []channelMoment)
	var wg sync.WaitGroup
	for range min(n, 6) {
		wg.Go(func() { // until next is closed
			for moments := range next {
				k.round(t, exe, moments)
			}
		})
	}
	for i := 0; i < n && !t.Failed(); i++ {
		moments := []channelMoment{someKill(rng, clean)}
		for len(moments) < 3 && rng.IntN(2) == 0 {
			moments = append(moments, someKill(rng, clean))
		}
		next <- moments
	}
	close(next)
	if wg.Wait(); t.Failed() {
		return
	}
	t.Logf("kill -9 of the channel and the daemon: %d rounds, %d kills, %d turns with one user line and one answer each, %d texts sent once, %d with a notice in place of a confirmation",
		n, k.kills, k.turns, k.sent, k.unknown)
}

// someKill returns a moment of a round with numbers of requests.
func someKill(rng *rand.Rand, requests [2]int) channelMoment {
	m := channelMoment{victim: rng.IntN(3) % 2, counted: rng.IntN(3) % 2}
	m.request = 1 + rng.IntN(requests[m.counted])
	if rng.IntN(2) == 0 {
		m.pause = time.Duration(rng.IntN(20_000)) * time.Microsecond
	}
	return m
}

// round lets four people write while processes are killed, and checks what is left. It
// returns the numbers of requests.
func (k *channelKills) round(t *testing.T, exe string, moments []channelMoment) [2]int {
	dir, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	r := &channelRound{t: t, exe: exe, home: dir, moments: moments}
	defer func() {
		if !r.failed {
			os.RemoveAll(dir)
		}
	}()
	r.api = telegramtest.New(func(err error) { r.errorf("bot: %v", err) })
	r.api.Do = r.called
	server := httptest.NewServer(r.api)
	defer server.Close()
	defer server.CloseClientConnections()
	m, err := modeltest.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Discard = true
	m.Func(func(q modeltest.Request) modeltest.Reply {
		r.count(toModel)
		return modeltest.Say("re: ", q.LastUser())
	})
	files := map[string]string{
		"config.toml":          "sessions.titles = \"first-line\"\n[provider.test]\nkind = \"openai-compatible\"\nbase_url = \"" + m.URL + "\"\napi_key = \"none\"\nmodels = [\"m\"]\n[system.crab]\nmodel = \"m\"\n",
		"config/telegram.toml": "token = \"" + telegramtest.Token + "\"\nallowed_users = [1, 2, 3, 4]\npoll_timeout = 1\nsession = \"one\"\napi = \"" + server.URL + "\"\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r.live()
	k.check(r)
	return r.requests
}

// errorf fails the test, and keeps the home. The caller does not hold mu.
func (r *channelRound) errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.t.Errorf("%s, killed at %+v: %s", r.home, r.moments, fmt.Sprintf(format, args...))
}

// live runs both processes, and starts a killed one again, until each message is answered.
func (r *channelRound) live() {
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*workHang)
	defer cancel()
	var wg sync.WaitGroup
	for p, args := range [][]string{{"telegram"}, {"daemon"}} {
		wg.Go(func() { // until ctx ends
			for ctx.Err() == nil {
				r.run(ctx, p, append(args, "--home", r.home))
			}
		})
	}
	for user := 1; user <= channelUsers; user++ {
		r.write(user)
	}
	r.write(1) // waits for the first
	for !r.settled() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if ctx.Err() != nil {
		r.errorf("messages have no answer: sent %v\n%s\n%s", r.api.Sent(), &r.stderr[0], &r.stderr[1])
	}
	cancel()
	wg.Wait()
}

// run runs a process until it is killed, or ctx ends.
func (r *channelRound) run(ctx context.Context, p int, args []string) {
	// A process that the killed daemon forked has its lock until it runs its program.
	lock := filepath.Join(r.home, "run", []string{"channel-telegram.lock", "daemon.lock"}[p])
	if err := vfs.WithLock(vfs.OS{}, lock, workHang, func() error { return nil }); err != nil {
		r.errorf("%v", err)
	}
	cmd := exec.CommandContext(ctx, r.exe, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), "CRABMEM_SOCKET=")
	cmd.Stderr = &r.stderr[p]
	r.mu.Lock()
	err := cmd.Start()
	r.running[p] = cmd
	r.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	exit, _ := errors.AsType[*exec.ExitError](err)
	if err != nil && (exit == nil || exit.ExitCode() >= 0) && ctx.Err() == nil {
		r.errorf("%v: %v\n%s", args, err, &r.stderr[p])
	}
}

// count counts a request, and kills the processes whose moment it is.
func (r *channelRound) count(counted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[counted]++
	for _, m := range r.moments {
		if cmd := r.running[m.victim]; m.counted == counted && m.request == r.requests[counted] && cmd != nil && cmd.Process != nil {
			if m.pause == 0 {
				cmd.Process.Kill()
			} else {
				time.AfterFunc(m.pause, func() { cmd.Process.Kill() })
			}
		}
	}
}

// called writes a person's next message after each text of the bot.
func (r *channelRound) called(method string) {
	if sent := r.api.Sent(); method == "sendMessage" {
		r.write(int(sent[len(sent)-1].Chat))
	}
	r.count(toAPI)
}

// write sends a person's next message.
func (r *channelRound) write(user int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written[user] < channelMessages {
		r.written[user]++
		r.api.Text(int64(user), fmt.Sprintf("u%d m%d", user, r.written[user]))
	}
}

// settled reports whether each message is written and has an answer.
func (r *channelRound) settled() bool {
	r.mu.Lock()
	all := true
	for _, n := range r.written[1:] {
		all = all && n == channelMessages
	}
	r.mu.Unlock()
	if !all || r.api.Unconfirmed() > 0 {
		return false
	}
	files, _ := filepath.Glob(filepath.Join(r.home, box.Telegram, "*.json"))
	for _, name := range files {
		b, err := os.ReadFile(name)
		var f box.File
		if err != nil || json.Unmarshal(b, &f) != nil || len(f.Waiting) > 0 || slices.ContainsFunc(f.Answers, func(a box.Answer) bool { return a.IsOpen() }) {
			return false
		}
	}
	return len(files) == channelUsers
}

// check compares the sessions with what the people and the bot sent.
func (k *channelKills) check(r *channelRound) {
	answers, notices := make(map[string]int), make(map[int64]int)
	for _, s := range r.api.Sent() {
		if strings.Contains(s.Text, channelNotice) {
			notices[s.Chat]++
		} else {
			answers[s.Text]++
		}
	}
	turns := r.turns()
	seen, sent, missing := make(map[string]int), 0, make(map[int64]int)
	for _, text := range turns {
		var user int64
		fmt.Sscanf(text, "u%d ", &user)
		for message := range strings.SplitSeq(text, "\n\n") {
			seen[message]++
		}
		switch n := answers["re: "+text]; n {
		case 0:
			missing[user]++
		case 1:
			sent++
		default:
			r.errorf("the answer to %q was sent %d times", text, n)
		}
		delete(answers, "re: "+text)
	}
	for user := int64(1); user <= channelUsers; user++ {
		for i := 1; i <= channelMessages; i++ {
			if text := fmt.Sprintf("u%d m%d", user, i); seen[text] != 1 {
				r.errorf("%q is in %d user lines", text, seen[text])
			}
		}
		if missing[user] > notices[user] {
			r.errorf("user %d: %d answers are missing, and %d notices say so", user, missing[user], notices[user])
		}
		k.mu.Lock()
		k.unknown += notices[user]
		k.mu.Unlock()
	}
	if len(answers) > 0 {
		r.errorf("texts without a turn: %v", answers)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kills, k.turns, k.sent = k.kills+len(r.moments), k.turns+len(turns), k.sent+sent
}

// turns returns the user lines of all sessions. Each has exactly one answer.
func (r *channelRound) turns() (list []string) {
	dir, err := sessionlog.OpenDir(filepath.Join(r.home, "sessions"), nil)
	if err != nil {
		r.errorf("%v", err)
		return nil
	}
	defer dir.Close()
	infos, err := dir.List()
	if err != nil || len(infos) != channelUsers {
		r.errorf("%d sessions: %v", len(infos), err)
	}
	for i := range infos {
		s, err := dir.Read(infos[i].ID)
		if err != nil {
			r.errorf("%v", err)
			continue
		}
		last := ""
		for l, err := range s.Lines(0) {
			if err != nil {
				r.errorf("%s: %v", s.Path, err)
				break
			}
			if l.Kind != record.KindMessage {
				continue
			}
			switch m := l.Message; {
			case m.Role == record.RoleUser && last == "":
				last = m.Content
				list = append(list, last)
			case m.Role == record.RoleAssistant && last != "" && m.Content == "re: "+last:
				last = ""
			default:
				r.errorf("%s: line %d: %s %q after the message %q", s.Path, l.Number, m.Role, m.Content, last)
			}
		}
		if last != "" {
			r.errorf("%s: %q has no answer", s.Path, last)
		}
		s.Close()
	}
	return list
}
