package daemoncrash

import (
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"crabmem/crmem/vfs"
)

// alphabet is every kind of request, and the restart of the daemon.
var alphabet = []string{"say", "brief", "short", "note", "compact", "title", "cron", "uncron", "config", "remember", "update", "forget", "checkpoint", "reopen"}

// tour has each kind of request more than once.
var tour = []string{
	"remember", "say", "cron", "note", "compact", "brief", "short", "title", "update", "cron", "uncron", "config", "checkpoint", "say", "compact", "compact",
	"remember", "forget", "reopen", "brief", "say", "cron", "title", "note", "reopen", "compact", "remember", "uncron", "config", "brief", "short", "checkpoint", "update", "say",
}

// TestPowerCuts cuts the power before every change that the daemon makes in a
// sequence of requests, and after every response, with each kind of leftover.
func TestPowerCuts(t *testing.T) {
	scripts := [][]string{tour}
	j := newJudge()
	j.again, j.resume = 80, 32
	limit, want := 3, 300
	if full {
		j.again, j.resume = 16, 8
		limit, want = 6, 1000
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 2))
			script := slices.Clone(tour)
			for i := range script {
				script[i] = alphabet[r.IntN(len(alphabet))]
			}
			scripts = append(scripts, script)
		}
	}
	points := 0
	kinds := map[string]int{}
	for seed, script := range scripts {
		w := newWorld(t, j, "power cut", uint64(seed))
		w.Limit = limit
		if err := w.play(script); err != nil {
			t.Fatal(err)
		}
		points += w.Points
		for kind, n := range w.l.counts() {
			kinds[kind] += n
		}
	}
	if j.first != nil {
		t.Error(j.first)
	}
	t.Logf("power cuts under the daemon checked: %d states, %d distinct, %d lost (%d points; %d resumed; %d distinct power cuts during recovery)",
		j.judged, len(j.disks), j.lost.Load(), points, j.resumed, j.recuts.Len())
	t.Logf("acknowledged at the end: %v", kinds)
	if len(j.disks) < want || j.resumed == 0 || j.recuts.Len() == 0 {
		t.Errorf("%d distinct states, want %d at least, some resumed and some cut again", len(j.disks), want)
	}
	for _, kind := range []string{"entry", "archive", "title", "cron", "config", "user", "assistant", "assistant+", "tool", "marker"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was acknowledged", kind)
		}
	}
	if n := scripted.Dangling.Load(); n > 0 {
		t.Errorf("%d requests to the model had a call without its result", n)
	}
}

// TestControl leaves out syncs of one kind, or all: the judge must find losses.
func TestControl(t *testing.T) {
	for _, c := range []struct {
		name string
		lossy
	}{
		{"no syncs", lossy{files: true, folders: true, replaced: true}},
		{"no syncs of files", lossy{files: true}},
		{"no syncs of folders", lossy{folders: true}},
		{"no syncs of replacements", lossy{replaced: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, newJudge(), c.name, 0)
			w.every = 4
			c.lossy.Mem = w.m
			w.fs = &c.lossy
			if err := w.play(tour); err != nil {
				t.Fatal(err)
			}
			t.Logf("control, %s: %d states, %d lost, the first: %.200v", c.name, w.judged, w.lost.Load(), w.first)
			if w.lost.Load() == 0 {
				t.Error("a daemon without syncs lost nothing: the test does not test")
			}
		})
	}
}

// lossy is a file system of which some syncs report success and do nothing.
type lossy struct {
	*vfs.Mem
	files    bool // Sync and Datasync of open files
	folders  bool // SyncDir
	replaced bool // the sync in Pending.Commit
}

func (l *lossy) SyncDir(name string) error {
	if l.folders {
		return nil
	}
	return l.Mem.SyncDir(name)
}

func (l *lossy) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.Mem.OpenFile(name, flag, perm)
	if err != nil || !l.files {
		return f, err
	}
	return lossyFile{f}, nil
}

func (l *lossy) Pending(name string, perm fs.FileMode) (vfs.Pending, error) {
	p, err := l.Mem.Pending(name, perm)
	if err != nil || !l.replaced {
		return p, err
	}
	return &lossyPending{p, l, name, false}, nil
}

type lossyFile struct{ vfs.File }

func (lossyFile) Sync() error     { return nil }
func (lossyFile) Datasync() error { return nil }

// lossyPending renames without a sync.
type lossyPending struct {
	vfs.Pending
	fs    *lossy
	final string
	done  bool
}

func (p *lossyPending) Sync() error     { return nil }
func (p *lossyPending) Datasync() error { return nil }

func (p *lossyPending) Commit() error {
	if err := p.Keep(); err != nil {
		return err
	}
	p.done = true
	return p.fs.Rename(p.Name(), p.final)
}

func (p *lossyPending) Discard() error {
	if p.done {
		return nil
	}
	return p.Pending.Discard()
}
