package daemoncrash

import (
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/fate"
	"crabmem/fuzz/model"
)

var full = os.Getenv("CRABMEM_CRASH") == "full"

// scripted is the model of all daemons.
var scripted *model.Server

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if scripted, err = model.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = scripted.Close()
	os.Exit(code)
}

// newMachine returns a machine with a configuration in its home. A run of the
// agent brief ends with a summary, one of the agent short after a call.
func newMachine() (*vfs.Mem, error) {
	m := vfs.NewMem()
	if err := vfs.MkdirAll(m, home, 0o700); err != nil {
		return nil, err
	}
	return m, vfs.Replace(m, home+"/config.toml", 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "[provider.test]\nkind = \"openai-compatible\"\nbase_url = \""+scripted.URL+"\"\napi_key = \"none\"\nmodels = [\"m\"]\nmax_retries = 0\n"+
			"[system.crab]\nmodel = \"m\"\n[agents.brief]\nprompt = \"x\"\ncompact_threshold = 1\n[agents.short]\nprompt = \"x\"\nmax_iterations = 1\n")
		return err
	})
}

// noReserve refuses the reserve file: recovery does not read its 64 blocks.
func noReserve(c vfs.Call) error {
	if c.Op == "create" && strings.HasSuffix(c.Name, "-reserve") {
		return os.ErrPermission
	}
	return nil
}

// idle reports whether a change is one of the text of a lock file.
func idle(c vfs.Change) bool {
	return c.Op == "write" && (strings.HasSuffix(c.Name, "-lock") || strings.HasSuffix(c.Name, ".lock") || strings.Contains(c.Name, "/.locks/"))
}

var imageSeed = maphash.MakeSeed()

// imageOf identifies the names and contents of a disk, without the digits of
// temporary names and without lock files. It identifies separately what recovery
// reads from the lock files.
func imageOf(m *vfs.Mem) (disk, locks uint64) {
	var h, l maphash.Hash
	h.SetSeed(imageSeed)
	l.SetSeed(imageSeed)
	var visit func(dir string)
	visit = func(dir string) {
		list, err := m.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range list {
			name := dir + "/" + e.Name()
			if e.IsDir() {
				maphash.WriteComparable(&h, name)
				visit(name)
				continue
			}
			text, err := vfs.ReadFile(m, name, 1<<30)
			if err != nil {
				continue
			}
			if idle(vfs.Change{Op: "write", Name: name}) {
				held := vfs.ParseHolder(string(text))
				maphash.WriteComparable(&l, [3]string{name, held.Boot, fmt.Sprint(held.Clean, held.Torn)})
				continue
			}
			if strings.HasPrefix(e.Name(), ".") {
				name = strings.TrimRight(name, "0123456789")
			}
			maphash.WriteComparable(&h, [2]uint64{maphash.String(imageSeed, name), maphash.Bytes(imageSeed, text)})
		}
	}
	visit("/machine")
	return h.Sum64(), l.Sum64()
}

// judge opens daemons on crashed machines.
type judge struct {
	again  int // cut the power during the recovery of each n-th state, too; 0 = never
	resume int // continue on each n-th state; 0 = never

	seen    map[[2]uint64]*found // by disk and locks
	disks   map[uint64]bool      // distinct
	recuts  map[[2]uint64]bool   // disks after power cuts during a recovery
	judged  int                  // states, also those of an earlier disk
	resumed int
	lost    int
	first   error // the first loss
}

func newJudge() *judge {
	return &judge{seen: map[[2]uint64]*found{}, disks: map[uint64]bool{}, recuts: map[[2]uint64]bool{}}
}

// crashed compares what a machine has after a power cut with a ledger.
func (j *judge) crashed(m *vfs.Mem, l *ledger) error {
	j.judged++
	disk, locks := imageOf(m)
	f := j.seen[[2]uint64{disk, locks}]
	if f == nil {
		n := len(j.seen) + 1
		j.disks[disk] = true
		if j.again > 0 && n%j.again == 0 {
			if err := j.recut(m.Kill(), l); err != nil {
				return err
			}
		}
		var err error
		if f, err = j.recover(m, l, j.resume > 0 && n%j.resume == 0); err != nil {
			return err
		}
		j.seen[[2]uint64{disk, locks}] = f
	}
	return l.check(f, false)
}

// recover opens a daemon and returns what it reports. With resume it sends a
// message to every session too, and cuts the power after the responses.
func (j *judge) recover(m *vfs.Mem, l *ledger, resume bool) (*found, error) {
	m.Hook = noReserve
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

// resumeAll sends a message to every session, and compares what is there then,
// and after another power cut.
func resumeAll(m *vfs.Mem, d *daemon.Daemon, l *ledger, f *found) error {
	l.settle(f)
	for key, id := range f.ids {
		agent, _, _ := strings.Cut(key, "/")
		const text = "hello after the power cut"
		want := []string{"user " + text, "assistant " + model.Answer(text)}
		if agent == "brief" {
			want = append(want, "marker *")
		}
		lines := l.talk(key).issue(want...)
		if err := ask(d, &pb.ClientMessage{Msg: &pb.ClientMessage_Stream{Stream: &pb.StreamMsg{Content: text, ResumeFile: &id}}}, func(*pb.ServerMessage) {}); err != nil {
			return fmt.Errorf("resume %s: %w", id, err)
		}
		for _, x := range lines {
			x.must = true
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
	c.Hook = noReserve
	next, err := openDaemon(c)
	if err != nil {
		return fmt.Errorf("resumed, cut: %w", err)
	}
	last, err := look(c, next)
	if err == nil {
		err = errors.Join(l.check(last, true), agree(c, last))
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return fmt.Errorf("resumed, cut: %w", err)
	}
	return nil
}

// recut cuts the power before each change that a recovery makes.
func (j *judge) recut(m *vfs.Mem, l *ledger) error {
	var failed error
	judgeCut := func() {
		frozen := m.Kill()
		fate.Each(frozen.Unsynced(), fate.Ends, idle, func(f []vfs.Fate) {
			c := frozen.Crash(f...)
			disk, locks := imageOf(c)
			if failed != nil || j.recuts[[2]uint64{disk, locks}] {
				return
			}
			j.recuts[[2]uint64{disk, locks}] = true
			got, err := j.recover(c, l, false)
			if err == nil {
				err = l.check(got, false)
			}
			if err != nil {
				failed = fmt.Errorf("cut again: %w", err)
			}
		})
	}
	var mu sync.Mutex
	m.Hook = func(c vfs.Call) error {
		if fate.Mutates(c.Op) {
			mu.Lock()
			defer mu.Unlock()
			judgeCut()
		}
		return noReserve(c)
	}
	d, err := openDaemon(m)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	err = d.Close()
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(err, failed)
}

// world is a daemon with one client, whose machine crashes at its calls.
type world struct {
	*judge
	name   string
	every  int // cut the power at every n-th change
	limit  int // of fate.Each
	m      *vfs.Mem
	fs     vfs.FS // m, or m without syncs
	client client

	mu     sync.Mutex
	l      *ledger
	calls  int
	points int
	grown  bool // there is more to lose than at the last point
}

func newWorld(t *testing.T, j *judge, name string, seed uint64) *world {
	t.Helper()
	m, err := newMachine()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{judge: j, name: name, every: 1, limit: fate.Ends, m: m, fs: m, l: newLedger()}
	w.client = client{who: "ann", rng: rand.New(rand.NewPCG(seed, 1)), mu: &w.mu, l: &w.l, crons: map[string]uint64{}}
	m.Hook = w.hook
	return w
}

func (w *world) hook(c vfs.Call) error {
	if fate.Mutates(c.Op) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.calls++; w.calls%w.every == 0 {
			w.explore(fmt.Sprintf("before call %d, %s %s", c.N, c.Op, c.Name))
		}
		w.grown = w.grown || fate.Grows(c.Op)
	}
	return noReserve(c)
}

// maxLost is how many losses end a search.
const maxLost = 100

// explore cuts the power here, with each kind of leftover. Right after a sync only
// the two ends are tried. No response is acknowledged while it runs: w.mu is held.
func (w *world) explore(where string) {
	if w.lost >= maxLost {
		return
	}
	w.points++
	frozen := w.m.Kill()
	changes := frozen.Unsynced()
	limit := w.limit
	if !w.grown {
		limit = fate.Ends
	}
	w.grown = false
	fate.Each(changes, limit, idle, func(f []vfs.Fate) {
		if err := w.crashed(frozen.Crash(f...), w.l); err != nil {
			if w.lost++; w.first == nil {
				w.first = fmt.Errorf("%s, %s, of %+v kept %v: %w", w.name, where, changes, f, err)
			}
		}
	})
}

// play opens the daemon and sends the requests of a script. The symbol reopen
// closes the daemon and opens it again.
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
			return fmt.Errorf("%s: step %d, %s: %w", w.name, i, symbol, err)
		}
		w.mu.Lock()
		w.grown = true // by an acknowledgement
		w.explore(fmt.Sprintf("after step %d, %s", i, symbol))
		w.mu.Unlock()
	}
	return w.client.d.Close()
}
