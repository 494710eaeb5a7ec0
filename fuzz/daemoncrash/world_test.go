package daemoncrash

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon"
	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
	"crabmem/fuzz/internal/model"
)

var full = crashtest.Full

// scripted is the model of all daemons.
var scripted *model.Server

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // the machines are small and many
	var err error
	if scripted, err = model.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	scripted.Close()
	os.Exit(code)
}

// newMachine returns a machine with a configuration and the skill tidy in the home directory. A run of
// the agent brief ends with a summary. A run of the agent short ends after one tool
// call, at its step limit.
func newMachine() (*faultfs.Mem, error) {
	m := faultfs.NewMem()
	skill := home + "/skills/tidy"
	if err := vfs.MkdirAll(m, skill, 0o700); err != nil {
		return nil, err
	}
	if err := vfs.WriteFile(m, skill+"/SKILL.md", 0o600, []byte("---\nname: tidy\ndescription: tidies\n---\nTidy up.\n")); err != nil {
		return nil, err
	}
	return m, vfs.Replace(m, home+"/config.toml", 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "sessions.titles = \"first-line\"\n[provider.test]\nkind = \"openai-compatible\"\nbase_url = \""+scripted.URL+"\"\napi_key = \"none\"\nmodels = [\"m\"]\nmax_retries = 0\n"+
			"[system.crab]\nmodel = \"m\"\n[agents.brief]\nprompt = \"x\"\ncompact_threshold = 1\n[agents.short]\nprompt = \"x\"\nmax_iterations = 1\n")
		return err
	})
}

// isLock reports whether a path is that of a lock file.
func isLock(path string) bool {
	return strings.HasSuffix(path, "-lock") || strings.HasSuffix(path, ".lock") || strings.Contains(path, "/.locks/")
}

// isUsage reports whether a path is that of the counts of runs and tokens, or of a temporary
// file for them. They may be lost.
func isUsage(path string) bool {
	return strings.HasPrefix(path, home+"/run/usage.json") || strings.HasPrefix(path, home+"/run/.usage.json")
}

// idle reports whether a change writes the text of a lock file, or is of the counts of
// usage. The tested outcomes keep or lose such changes together.
func idle(c faultfs.Change) bool { return c.Op == "write" && isLock(c.Name) || isUsage(c.Name) }

// imageOf returns two hashes. disk covers names and contents, without lock files and
// without the digits of temporary names. locks covers the parts of lock files that
// recovery reads.
func imageOf(m *faultfs.Mem) (disk, locks uint64) {
	return crashtest.Image(m, "/machine", func(path, name string) (string, bool) {
		if isLock(path) || isUsage(path) {
			return "", isLock(path)
		}
		if strings.HasPrefix(name, ".") {
			path = strings.TrimRight(path, "0123456789")
		}
		return path, false
	})
}

// oracle opens daemons on crashed machines, checks them, and caches the results.
type oracle struct {
	recutEvery  int // cut the power during the recovery of every n-th state, too; 0: never
	resumeEvery int // resume the sessions of every n-th state; 0: never

	seen      map[[2]uint64]*found             // recovered states, by the two hashes of imageOf
	disks     map[uint64]bool                  // distinct disks
	recuts    crashtest.Memo[uint64, struct{}] // disks after power cuts during a recovery
	checked   int                              // checked states, including repeated disks
	resumed   int                              // states in which sessions were resumed
	lost      atomic.Int64                     // violations
	firstLoss error                            // the first violation
}

func newOracle() *oracle {
	return &oracle{seen: map[[2]uint64]*found{}, disks: map[uint64]bool{}}
}

// crashed compares the state of a machine after a power cut with a ledger. It
// recovers each distinct disk once.
func (j *oracle) crashed(m *faultfs.Mem, l *ledger) error {
	j.checked++
	disk, locks := imageOf(m)
	f := j.seen[[2]uint64{disk, locks}]
	if f == nil {
		n := len(j.seen) + 1
		j.disks[disk] = true
		if j.recutEvery > 0 && n%j.recutEvery == 0 {
			if err := j.recut(m.Kill(), l); err != nil {
				return err
			}
		}
		var err error
		if f, err = j.recover(m, l, j.resumeEvery > 0 && n%j.resumeEvery == 0); err != nil {
			return err
		}
		j.seen[[2]uint64{disk, locks}] = f
	}
	return l.check(f, false)
}

// recover opens a daemon and returns the state that it reports. If resume is true,
// it also sends a message to each session, and cuts the power after the responses.
func (j *oracle) recover(m *faultfs.Mem, l *ledger, resume bool) (*found, error) {
	m.Hook = crashtest.NoReserve
	d, err := openDaemon(m)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	f, err := look(m, d)
	if err == nil && resume {
		j.resumed++
		if err = l.check(f, false); err == nil {
			err = resumeAll(m, d, l.clone(), f)
		}
	}
	if cerr := d.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	return f, err
}

// resumeAll sends a message to each session. It compares the state with the ledger
// after the responses and after another power cut.
func resumeAll(m *faultfs.Mem, d *daemon.Daemon, l *ledger, f *found) error {
	l.settle(f)
	for key, id := range f.ids {
		agent, _, _ := strings.Cut(key, "/")
		const text = "hello after the power cut"
		want := []string{"user " + text, "assistant " + model.Answer(text)}
		if agent == "brief" {
			want = append(want, "marker *")
		}
		l.session(key).issueHalf()
		lines := l.session(key).issue(want...)
		if err := send(d, &pb.ClientMessage{Msg: &pb.ClientMessage_Stream{Stream: &pb.StreamMsg{Content: text, ResumeFile: &id}}}, func(*pb.ServerMessage) {}); err != nil {
			return fmt.Errorf("resume %s: %w", id, err)
		}
		for _, x := range lines {
			x.acked = true
		}
	}
	after, err := look(m, d)
	if err != nil {
		return err
	}
	if err := errors.Join(l.check(after, true), agree(m, after)); err != nil {
		return fmt.Errorf("resumed: %w", err)
	}
	c := m.Crash()
	c.Hook = crashtest.NoReserve
	next, err := openDaemon(c)
	if err != nil {
		return fmt.Errorf("resumed, after a power cut: %w", err)
	}
	last, err := look(c, next)
	if err == nil {
		err = errors.Join(l.check(last, true), agree(c, last))
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return fmt.Errorf("resumed, after a power cut: %w", err)
	}
	return nil
}

// recut recovers a machine, cuts the power before each change of the recovery, and
// checks the crash states.
func (j *oracle) recut(m *faultfs.Mem, l *ledger) error {
	cut := crashtest.Recovery{Limit: fault.Ends, Idle: idle, Seen: &j.recuts,
		Image: func(m *faultfs.Mem) uint64 {
			disk, locks := imageOf(m)
			return disk ^ locks
		},
		Check: func(m *faultfs.Mem, _ uint64) error {
			got, err := j.recover(m, l, false)
			if err != nil {
				return err
			}
			return l.check(got, false)
		}}
	var mu sync.Mutex
	m.Hook = func(c faultfs.Call) error {
		if fault.Mutates(c.Op) {
			mu.Lock()
			defer mu.Unlock()
			cut.Hook(m.Kill(), c)
		}
		return crashtest.NoReserve(c)
	}
	d, err := openDaemon(m)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	err = d.Close()
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(err, cut.Err)
}

// world is a daemon with one client on a machine that crashes at each call.
type world struct {
	*oracle
	crashtest.Explorer
	every  int // cut the power at every n-th call that changes the crash states
	m      *faultfs.Mem
	fs     vfs.FS // m, or a fault.Lossy on m
	client client

	mu    sync.Mutex // guards Explorer and the fields below
	l     *ledger
	calls int // calls that change the crash states
}

func newWorld(t *testing.T, j *oracle, name string, seed uint64) *world {
	t.Helper()
	m, err := newMachine()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{oracle: j, every: 1, m: m, fs: m, l: newLedger()}
	w.Explorer = crashtest.Explorer{Name: name, Limit: fault.Ends, Idle: idle, Lost: &j.lost, MaxLost: 99,
		Crashed: func(m *faultfs.Mem) error { return w.crashed(m, w.l) },
		Fail: func(err error) {
			if w.firstLoss == nil {
				w.firstLoss = err
			}
		}}
	w.client = client{who: "ann", rng: rand.New(rand.NewPCG(seed, 1)), mu: &w.mu, l: &w.l, crons: map[string]uint64{}}
	m.Hook = w.hook
	return w
}

func (w *world) hook(c faultfs.Call) error {
	if fault.Mutates(c.Op) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.calls++; w.calls%w.every == 0 {
			w.Explore(w.m.Kill(), fmt.Sprintf("before call %d, %s %s", c.N, c.Op, c.Name))
		}
		w.Grown = w.Grown || fault.Grows(c.Op)
	}
	return crashtest.NoReserve(c)
}

// play opens the daemon and sends the requests of a script. The symbol reopen
// restarts the daemon.
func (w *world) play(script []string) error {
	var err error
	if w.client.d, err = openDaemon(w.fs); err != nil {
		return err
	}
	for i, symbol := range script {
		if symbol == "reopen" {
			err = w.client.d.Close()
			if err == nil {
				w.client.d, err = openDaemon(w.fs)
			}
		} else {
			err = w.client.do(symbol)
		}
		if err != nil {
			return fmt.Errorf("%s: step %d, %s: %w", w.Name, i, symbol, err)
		}
		w.mu.Lock()
		w.Grown = true // a crash must not lose the request from here on
		w.Explore(w.m.Kill(), fmt.Sprintf("after step %d, %s", i, symbol))
		w.mu.Unlock()
	}
	return w.client.d.Close()
}
