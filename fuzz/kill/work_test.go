package kill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/daemon/wire"
	"crabmem/fuzz/internal/model"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// The messages of a user, and the questions and tasks that the channel gives out.
const (
	workHang     = time.Minute // more than the daemon's delay after a restart
	workQuestion = "is the release ready?"
	workNext     = "and now?"
)

var (
	workThoughts = []string{"what did we agree on?", "what went wrong before?"}
	workTasks    = map[string]string{"count the tests": "wc -l tests.txt", "read the log": "head -n 2 log.md", "measure the image": "wc -c image.bin"}
)

// workFiles are the files of the tasks.
var workFiles = map[string]string{"project/tests.txt": "ok\nok\n", "project/log.md": "# 2.4\n- faster\n", "project/image.bin": "xxxx"}

// workKills counts the results of killed daemons with work.
type workKills struct {
	mu                     sync.Mutex
	kills, acked, requests int
	starts, failed, trash  int // failed: outcomes other than done; trash: sessions that no start names
	steps                  map[string]int
}

// workRound is a home whose daemons are killed.
type workRound struct {
	t         *testing.T
	exe, home string
	mode      int // what the client does after a kill: see send
	moments   []moment
	id        string // of the request
	server    *modeltest.Server
	dir       *sessionlog.Dir

	mu       sync.Mutex
	cmd      *exec.Cmd
	requests int
	kill     moment
	failed   bool
	acked    map[string]bool // IDs of work in results of the tools that the model received
}

// moment is when a daemon is killed: pause after the request to the model or the file of
// that number, or after its start if both are 0.
type moment struct {
	request, files int
	pause          time.Duration
}

// TestKillWork kills the daemon at each step of a channel with two branches and three
// workers. After a restart, each acknowledged spawn has one outcome, and each outcome is
// delivered once.
//
//	CRABMEM_WORK_KILLS=N   N homes, each killed once or twice
func TestKillWork(t *testing.T) {
	n := count(t, "CRABMEM_WORK_KILLS", rounds(3, 200))
	rng := seed.Random(t)
	exe := command(t)
	k := &workKills{steps: make(map[string]int)}
	first := k.round(t, exe, 0, nil) // the number of requests of a run without a kill
	next := make(chan func())
	var wg sync.WaitGroup
	for range min(n, 8) { // most of a round is the daemon's delay after a restart
		wg.Go(func() {
			for f := range next {
				f()
			}
		})
	}
	begin := rng.IntN(4 * first) // so that a few rounds reach each step in time
	for i := begin; i < begin+n && !t.Failed(); i++ {
		moments := []moment{someMoment(rng, i, first)}
		if rng.IntN(3) == 0 {
			moments = append(moments, someMoment(rng, rng.IntN(4), 1+rng.IntN(first)))
		}
		mode := rng.IntN(3)
		next <- func() { k.round(t, exe, mode, moments) }
	}
	close(next)
	if wg.Wait(); t.Failed() {
		return
	}
	t.Logf("kill -9 of the daemon with work: %d rounds, %d kills, %d starts, %d spawns acknowledged, each with one outcome, delivered once; %d outcomes of failures, %d sessions in the trash, %d requests to the model, 0 with a dangling call; last lines before the kills: %v",
		n, k.kills, k.starts, k.acked, k.failed, k.trash, k.requests, k.steps)
}

// someMoment returns the i-th moment of a run with a number of requests.
func someMoment(rng *rand.Rand, i, requests int) moment {
	n := 1 + i/4%requests
	switch i % 4 {
	case 0:
		return moment{request: n}
	case 1:
		return moment{request: n, pause: time.Duration(rng.IntN(10_000)) * time.Microsecond}
	case 2:
		return moment{files: 1 + i/4%6, pause: time.Duration(rng.IntN(3_000)) * time.Microsecond}
	}
	return moment{pause: time.Duration(rng.IntN(300)) * time.Millisecond}
}

// round kills the daemons of a home at some moments. The last one ends the work. round
// returns the number of requests to the model.
func (k *workKills) round(t *testing.T, exe string, mode int, moments []moment) int {
	dir, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	r := &workRound{t: t, exe: exe, home: filepath.Join(dir, "home"), mode: mode, moments: moments, id: filepath.Base(dir), acked: make(map[string]bool)}
	defer func() {
		if !r.failed {
			os.RemoveAll(dir)
		}
	}()
	if r.server, err = modeltest.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer r.server.Close()
	if r.dir, err = sessionlog.OpenDir(filepath.Join(r.home, "sessions"), nil); err != nil {
		t.Fatal(err)
	}
	defer r.dir.Close()
	r.server.Discard = true
	r.server.Func(r.reply)
	files := maps.Clone(workFiles)
	files["home/config.toml"] = "sessions.titles = \"first-line\"\n[provider.test]\nkind = \"openai-compatible\"\nbase_url = \"" + r.server.URL +
		"\"\napi_key = \"none\"\nmodels = [\"m\"]\n[roles]\nwake_delay = \"10ms\"\nwakes = 100\n[system.crab]\nrole = \"channel\"\nmodel = \"m\"\n"
	if err := errors.Join(os.Mkdir(r.home, 0o700), os.Mkdir(filepath.Join(dir, "project"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n, m := range moments {
		r.life(n > 0, &m)
		k.step(r.lastLine())
	}
	r.life(len(moments) > 0, nil)
	k.check(r)
	return r.requests
}

// errorf fails the test, and keeps the home. The caller does not hold mu.
func (r *workRound) errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.t.Errorf("%s, mode %d, killed at %+v: %s", r.home, r.mode, r.moments, fmt.Sprintf(format, args...))
}

// life runs a daemon until m, or until its work has ended if m is nil. again is set after
// a kill.
func (r *workRound) life(again bool, m *moment) {
	// A process that the killed daemon forked has its lock until it runs its program.
	if err := vfs.WithLock(vfs.OS{}, filepath.Join(r.home, "run", "daemon.lock"), workHang, func() error { return nil }); err != nil {
		r.errorf("%v", err)
	}
	r.mu.Lock()
	cmd, stderr := launchDaemon(r.t, r.exe, r.home)
	r.cmd = cmd
	if r.kill = (moment{}); m != nil {
		r.kill = *m
		r.kill.request += min(m.request, 1) * r.requests
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.t.Context(), workHang)
	defer cancel()
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait(); cancel() }() // ends with the process
	if m != nil && m.request == 0 {
		go func() { // ends with ctx
			for len(r.sessions()) < m.files && ctx.Err() == nil {
				time.Sleep(200 * time.Microsecond)
			}
			time.Sleep(m.pause)
			cmd.Process.Kill()
		}()
	}
	c := &client.Client{Addr: wire.Addr{Network: "unix", Address: filepath.Join(r.home, "daemon.sock")}}
	defer c.Close()
	for c.Ping(ctx) != nil && ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
	}
	err := r.send(ctx, c, again)
	for err == nil && !r.settled(ctx, c) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	refused, _ := errors.AsType[*client.Error](err)
	if m == nil && (err != nil || ctx.Err() != nil) || refused != nil {
		r.errorf("the work does not end: %v, %v\n%s", err, ctx.Err(), stderr)
	}
	if m != nil {
		cmd.Process.Kill()
	} else {
		cmd.Process.Signal(os.Interrupt)
	}
	if err := <-exited; m == nil && err != nil {
		r.errorf("the daemon exited with %v", err)
	}
	if bytes.Contains(stderr.Bytes(), []byte("level=ERROR")) {
		r.errorf("the daemon logs errors: %s", stderr)
	}
}

// send sends the question. After a kill it repeats the request, sends another message, or
// leaves the work to the daemon.
func (r *workRound) send(ctx context.Context, c *client.Client, again bool) error {
	m := op.Message{Content: workQuestion, Dir: filepath.Join(filepath.Dir(r.home), "project"), Request: r.id}
	if again && r.mode == 1 {
		return nil
	} else if again && r.mode == 2 {
		m.Content, m.Request = workNext, ""
	}
	_, err := op.SendMessage.Do(ctx, c, m)
	return err
}

// settled reports whether no work is open, the channel has answered its outcomes, and its
// session is not marked.
func (r *workRound) settled(ctx context.Context, c *client.Client) bool {
	list, err := op.ListWork.Do(ctx, c, op.WorkQuery{})
	if err != nil || len(list) > 0 {
		return false
	}
	if marks, _ := os.ReadDir(filepath.Join(r.home, "work")); len(marks) > 0 {
		return false
	}
	p := r.read(r.parent())
	return p == nil || len(p.starts) == 0 || p.answered
}

// reply plays the model, and kills the daemon at its moment.
func (r *workRound) reply(q modeltest.Request) modeltest.Reply {
	if !model.Paired(q.Messages) {
		r.errorf("a request has a call without a result, or a result without a call")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests++; r.requests == r.kill.request {
		time.AfterFunc(r.kill.pause, func() { r.cmd.Process.Kill() })
		if r.kill.pause == 0 {
			r.cmd.Process.Kill()
		}
	}
	has := func(tool string) bool { return slices.Contains(q.Tools, tool) }
	last, user := q.Messages[len(q.Messages)-1], q.LastUser()
	command := ""
	for _, m := range q.Messages {
		for task, c := range workTasks {
			if m.Role == record.RoleUser && strings.Contains(m.Content, task) {
				command = c
			}
		}
		if id := spawned(m.Role, m.Content); has(role.Reply) && id != "" {
			r.acked[id] = true
		}
	}
	switch {
	case has(role.Reply) && last.Role == record.RoleUser && user == workQuestion:
		a := call(role.Reply, "content", "I ask.", modeltest.Reply{})
		for _, q := range workThoughts {
			a = call(role.Branch, "question", q, a)
		}
		for _, task := range slices.Sorted(maps.Keys(workTasks)) {
			a = call(role.SpawnWorker, "task", task, a)
		}
		return a
	case has(role.Reply) && last.Role == record.RoleUser && user == workNext:
		return call(role.Reply, "content", "I look.", modeltest.Reply{})
	case has(role.Outcome) && last.Role == record.RoleTool:
		return call(role.Outcome, "text", last.Content, modeltest.Reply{})
	case has(role.Outcome):
		return call("bash", "command", command, call(role.SetStatus, "status", "counting", modeltest.Reply{}))
	}
	return modeltest.Say("that is ", "all")
}

// call adds a call with one argument to a reply.
func call(name, key, value string, a modeltest.Reply) modeltest.Reply {
	b, _ := json.Marshal(map[string]string{key: value})
	return a.Call(name, string(b))
}

// spawned returns the ID of the work that a result of a tool acknowledges, or "".
func spawned(by, content string) string {
	id, rest, _ := strings.Cut(content, " ")
	if _, n := record.SplitWorkID(id); by != record.RoleTool || n == 0 || !strings.HasSuffix(rest, "conversation") && !strings.HasSuffix(rest, "comes") {
		return ""
	}
	return id
}

// sessions returns the names of the files of sessions.
func (r *workRound) sessions() (names []string) {
	list, _ := filepath.Glob(filepath.Join(r.home, "sessions", "*.jsonl"))
	return list
}

// parent returns the ID of the channel's session, or "".
func (r *workRound) parent() string {
	list, err := r.dir.List()
	if err != nil || len(list) > 1 {
		r.errorf("%d sessions without those of work: %v", len(list), err)
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].ID
}

// lastLine returns the kind of the last line of the channel's session.
func (r *workRound) lastLine() string {
	if p := r.read(r.parent()); p != nil {
		return p.last
	}
	return "no session"
}

// launchDaemon starts a daemon.
func launchDaemon(t *testing.T, exe, home string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(exe, "daemon", "--home", home)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	cmd.Env = append(os.Environ(), "CRABMEM_SOCKET=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, stderr
}
