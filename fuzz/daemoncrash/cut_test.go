package daemoncrash

import (
	"math/rand/v2"
	"slices"
	"testing"

	"crabmem/fuzz/internal/fault"
)

// alphabet contains the kinds of requests, and reopen, the restart of the daemon.
var alphabet = []string{"say", "brief", "short", "cut", "note", "compact", "title", "cron", "uncron", "config", "remember", "update", "forget", "checkpoint", "reopen"}

// tour is a script with all symbols of alphabet.
var tour = []string{
	"remember", "say", "cron", "cut", "cut", "note", "compact", "brief", "short", "title", "update", "cron", "uncron", "config", "checkpoint", "say", "compact", "compact",
	"remember", "forget", "cut", "reopen", "brief", "say", "cron", "title", "note", "reopen", "compact", "remember", "uncron", "config", "brief", "short", "checkpoint", "update", "say",
}

// TestPowerCuts plays sequences of requests. It cuts the power before each call that
// changes the crash states and after each response, with several outcomes.
func TestPowerCuts(t *testing.T) {
	scripts := [][]string{tour}
	j := newOracle()
	j.recutEvery, j.resumeEvery = 80, 32
	limit, want, every := 3, 100, 16
	if full {
		j.recutEvery, j.resumeEvery = 16, 8
		limit, want, every = 6, 1000, 1
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
		w.Limit, w.every = limit, every
		if err := w.play(script); err != nil {
			t.Fatal(err)
		}
		points += w.Points
		for kind, n := range w.l.counts() {
			kinds[kind] += n
		}
	}
	if j.firstLoss != nil {
		t.Error(j.firstLoss)
	}
	t.Logf("power cuts under the daemon checked: %d states, %d distinct, %d lost (%d points; %d resumed; %d distinct power cuts during recovery)",
		j.checked, len(j.disks), j.lost.Load(), points, j.resumed, j.recuts.Len())
	t.Logf("acknowledged at the end: %v", kinds)
	if len(j.disks) < want || j.resumed == 0 || j.recuts.Len() == 0 {
		t.Errorf("%d distinct states, %d resumed, %d power cuts during recovery; want at least %d, 1, 1", len(j.disks), j.resumed, j.recuts.Len(), want)
	}
	for _, kind := range []string{"entry", "archive", "title", "cron", "config", "user", "assistant", "assistant+", "tool", "marker", "piece", "failed"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was acknowledged", kind)
		}
	}
	if n := scripted.Dangling.Load(); n > 0 {
		t.Errorf("%d requests to the model had a call without a result or a result without a call", n)
	}
}

// TestControl disables one kind of sync, or all syncs. The oracle must find a loss.
func TestControl(t *testing.T) {
	for _, c := range []struct {
		name     string
		unsynced fault.Unsynced
	}{
		{"no syncs", fault.Unsynced{Files: true, Dirs: true, Replaced: true}},
		{"no syncs of files", fault.Unsynced{Files: true}},
		{"no syncs of folders", fault.Unsynced{Dirs: true}},
		{"no syncs of replacements", fault.Unsynced{Replaced: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, newOracle(), c.name, 0)
			w.every = 4
			w.fs = fault.Lossy{FS: w.m, Unsynced: c.unsynced}
			if err := w.play(tour); err != nil {
				t.Fatal(err)
			}
			t.Logf("control, %s: %d states, %d lost, first loss: %.200v", c.name, w.checked, w.lost.Load(), w.firstLoss)
			if w.lost.Load() == 0 {
				t.Error("no loss found without these syncs: the test is ineffective")
			}
		})
	}
}
