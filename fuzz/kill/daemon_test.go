package kill_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/fuzz/internal/model"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const writers = 4 // number of clients of one daemon

// turn is a message of a client. It is acknowledged when the client has received
// the end of the response.
type turn struct {
	text  string
	ended bool
}

// requestLog contains the requests of one client to the daemons of a home, with the
// results.
type requestLog struct {
	sender   string
	n        int               // number in the last text of next
	entries  map[string]string // acknowledged contents, by name
	turns    []turn
	archives map[string]string // acknowledged summaries, by name
}

// daemonKills counts the results of killed daemons.
type daemonKills struct {
	entries, turns, archived int // acknowledged items
	cut                      int // turns without an acknowledgment
	markers                  int // compaction markers with an archive
	restarts                 int
}

// TestKillDaemon repeatedly kills the daemon while four clients send requests. Most
// daemons continue with the home of the previous daemon.
//
//	CRABMEM_DAEMON_KILLS=N   kill N times
func TestKillDaemon(t *testing.T) {
	n := count(t, "CRABMEM_DAEMON_KILLS", rounds(5, 100))
	rng := seed.Random(t)
	m, err := model.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	exe := command(t)
	var sum daemonKills
	few := func() bool { return sum.entries < n || sum.turns < n/2 }
	done := 0
	for done < n || done < 20*n && few() { // the load determines how many requests a daemon answers
		life := min(1+rng.IntN(20), max(n-done, 1))
		sum.life(t, exe, m, rng, life)
		done += life
		if t.Failed() {
			break
		}
	}
	if d := m.Dangling.Load(); d > 0 {
		t.Errorf("%d requests to the model had a call without a result or a result without a call", d)
	}
	if t.Failed() {
		return
	}
	t.Logf("kill -9 of the daemon: %d rounds, %d entries, %d turns, and %d compactions acknowledged to %d clients, 0 lost; %d turns interrupted, %d markers with archives, %d requests to the model, 0 with a dangling call",
		done, sum.entries, sum.turns, sum.archived, writers, sum.cut, sum.markers, m.Requests.Load())
	if few() {
		t.Errorf("%d entries and %d turns acknowledged in %d rounds: too few to test", sum.entries, sum.turns, done)
	}
}

// life kills the daemons of one home several times, and checks the home each time.
func (k *daemonKills) life(t *testing.T, exe string, m *model.Server, rng *rand.Rand, kills int) {
	t.Helper()
	home, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	config := "sessions.titles = \"first-line\"\n[provider.test]\nkind = \"openai-compatible\"\nbase_url = \"" + m.URL + "\"\napi_key = \"none\"\nmodels = [\"m\"]\n[system.crab]\nmodel = \"m\"\n"
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	logs := make([]*requestLog, writers)
	for i := range logs {
		logs[i] = &requestLog{sender: fmt.Sprintf("w%d", i), entries: make(map[string]string), archives: make(map[string]string)}
	}
	for range kills {
		cmd, stderr := startDaemon(t, exe, home)
		c := &client.Client{Addr: wire.Addr{Network: "unix", Address: filepath.Join(home, "daemon.sock")}}
		ctx, cancel := context.WithCancel(t.Context())
		wrote := make(chan struct{})
		var wg sync.WaitGroup
		var acks atomic.Int64
		wanted := int64(1 + rng.IntN(60))
		acknowledged := func() {
			if acks.Add(1) == wanted {
				close(wrote)
			}
		}
		errs := make([]error, writers)
		for i, d := range logs {
			sd := rng.Uint64()
			wg.Go(func() {
				errs[i] = d.write(ctx, c, rand.New(rand.NewPCG(sd, 0)), acknowledged)
			})
		}
		if rng.IntN(5) > 0 {
			select {
			case <-wrote:
			case <-time.After(gate.Hang):
				t.Errorf("%d of %d acknowledgments in %v: %s", acks.Load(), wanted, gate.Hang, stderr)
			}
		} else {
			time.Sleep(time.Duration(1+rng.IntN(150)) * time.Millisecond)
		}
		cmd.Process.Kill()
		cmd.Wait()
		cancel()
		wg.Wait()
		c.Close()
		for i, err := range errs {
			if refused, ok := errors.AsType[*client.Error](err); ok {
				t.Errorf("the daemon refused a request of client %d: %v\n%s", i, refused, stderr)
			}
		}
		k.restarts++
		if k.check(t, home, logs, false); t.Failed() {
			t.Logf("log of the daemon: %s", stderr)
			return
		}
	}
	// The next daemon completes pending archives and stops cleanly.
	cmd, stderr := startDaemon(t, exe, home)
	c := &client.Client{Addr: wire.Addr{Network: "unix", Address: filepath.Join(home, "daemon.sock")}}
	for _, d := range logs {
		if err := d.say(t.Context(), c, d.next("the end")); err != nil {
			t.Errorf("request after the kills: %v", err)
		}
	}
	c.Close()
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon exited with %v: %s", err, stderr)
	}
	k.check(t, home, logs, true)
	for _, d := range logs {
		k.entries += len(d.entries)
		k.archived += len(d.archives)
		for _, turn := range d.turns {
			if turn.ended {
				k.turns++
			} else {
				k.cut++
			}
		}
	}
}

// startDaemon starts a daemon and waits until it responds.
func startDaemon(t *testing.T, exe, home string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd, stderr := launchDaemon(t, exe, home)
	c := &client.Client{Addr: wire.Addr{Network: "unix", Address: filepath.Join(home, "daemon.sock")}}
	defer c.Close()
	for began := time.Now(); time.Since(began) < gate.Hang; time.Sleep(2 * time.Millisecond) {
		if c.Ping(t.Context()) == nil {
			return cmd, stderr
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	t.Fatalf("the daemon does not respond: %s", stderr)
	return nil, nil
}

// next returns a text that no request has contained before.
func (d *requestLog) next(what string) string {
	d.n++
	return fmt.Sprintf("%s %s %d", what, d.sender, d.n)
}

// write sends requests until one fails, and returns the error. It calls wrote after
// each acknowledgment.
func (d *requestLog) write(ctx context.Context, c *client.Client, rng *rand.Rand, wrote func()) error {
	for {
		var err error
		switch rng.IntN(8) {
		case 0, 1:
			err = d.say(ctx, c, d.next("hello from"))
		case 2:
			err = d.say(ctx, c, d.next("note of"))
		case 3:
			err = d.compact(ctx, c)
		default:
			name := d.next("entry")
			if _, err = op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: name, Content: "by " + name}}); err == nil {
				d.entries[name] = "by " + name
			}
		}
		if err != nil {
			return err
		}
		wrote()
	}
}

// say sends a message and records the turn. A message that begins with "note" makes
// the model call remember.
func (d *requestLog) say(ctx context.Context, c *client.Client, text string) error {
	d.turns = append(d.turns, turn{text: text})
	noted, response := false, ""
	for e, err := range op.StreamMessage.All(ctx, c, op.Message{Agent: "crab", Content: text, Sender: d.sender}) {
		if err != nil {
			return err
		}
		if e.Kind == agent.ToolResult && !e.Failed {
			noted = true
		}
		if e.Kind == agent.TextDelta {
			response += e.Content
		}
	}
	d.turns[len(d.turns)-1].ended = true
	if response != model.Answer(text) {
		return fmt.Errorf("the response to %q is %q", text, response)
	}
	if noted {
		name := text[len("note "):]
		d.entries[name] = model.Answer(name)
	}
	return nil
}

// compact compacts the client's session and records the archive.
func (d *requestLog) compact(ctx context.Context, c *client.Client) error {
	list, err := op.ListLoaded.Do(ctx, c, op.None{})
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.CreatedBy != d.sender {
			continue
		}
		r, err := op.CompactSession.Do(ctx, c, op.Compaction{Number: s.Number})
		if err != nil {
			return err
		}
		d.archives[r.Archive] = r.Summary
	}
	return nil
}

// check compares the files with the acknowledged requests. Each marker must have an
// archive. Unless end is true, the archive of the last marker may be missing.
func (k *daemonKills) check(t *testing.T, home string, logs []*requestLog, end bool) {
	t.Helper()
	got := make(map[string]string)
	archives := make(map[string]bool)
	err := readStore(filepath.Join(home, "memory.db"), func(s *crmem.Store) error {
		for e := range s.All() {
			got[e.Name] = e.Content
			if e.Kind == crmem.Archive {
				archives[e.Content] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("the store: %v", err)
	}
	dir, err := sessionlog.OpenDir(filepath.Join(home, "sessions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, d := range logs {
		for name, text := range maps.All(d.entries) {
			if got[name] != text {
				t.Errorf("%q was acknowledged, but the store has %q", name, got[name])
			}
		}
		for name, text := range maps.All(d.archives) {
			if got[name] != text {
				t.Errorf("archive %q was acknowledged, but the store has %q", name, got[name])
			}
		}
		if len(d.turns) > 0 {
			k.checkSession(t, dir, d, archives, end)
		}
	}
}

// checkSession compares the session of a client with the turns.
func (k *daemonKills) checkSession(t *testing.T, dir *sessionlog.Dir, d *requestLog, archives map[string]bool, end bool) {
	t.Helper()
	id, err := dir.Latest("crab", d.sender, "")
	if errors.Is(err, sessionlog.ErrNotFound) {
		for _, turn := range d.turns {
			if turn.ended {
				t.Errorf("%q was acknowledged, but the session is missing", turn.text)
			}
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", d.sender, err)
		return
	}
	s, err := dir.Read(id)
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return
	}
	defer s.Close()
	// For each user message, find the last assistant message before the next one.
	responses, times := make(map[string]string), make(map[string]int)
	message, marker := "", ""
	for l, err := range s.Lines(0) {
		if err != nil {
			t.Errorf("%s: %v", id, err)
			return
		}
		switch l.Kind {
		case record.KindBad:
			if !l.Torn {
				t.Errorf("%s: line %d: %v", id, l.Number, l.Err)
			}
		case record.KindMarker:
			marker = l.Summary
			if archives[marker] {
				marker = ""
				if end {
					k.markers++
				}
			}
		case record.KindMessage:
			if marker != "" {
				t.Errorf("%s: line %d: a message after the summary %q, which is not in the store", id, l.Number, marker)
				marker = ""
			}
			switch l.Message.Role {
			case record.RoleUser:
				message = l.Message.Content
				times[message]++
			case record.RoleAssistant:
				responses[message] = l.Message.Content
			}
		}
	}
	if marker != "" && end {
		t.Errorf("%s: the summary %q is not in the store", id, marker)
	}
	for _, turn := range d.turns {
		switch {
		case times[turn.text] > 1:
			t.Errorf("%s: %q occurs %d times", id, turn.text, times[turn.text])
		case turn.ended && responses[turn.text] != model.Answer(turn.text):
			t.Errorf("%s: %q was acknowledged, but the response in the file is %q", id, turn.text, responses[turn.text])
		}
	}
}
