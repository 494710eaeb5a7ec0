package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/fuzz/mutation/weave"
)

// tiny returns a plan with all mutants of testdata/tiny.
func tiny(t *testing.T, equivalents ...*equivalent) *plan {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "equivalents.json")
	b, err := json.Marshal(equivalents)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, b, 0o600); err != nil {
		t.Fatal(err)
	}
	const pattern = "./fuzz/mutation/testdata/tiny"
	p, err := newPlan(&config{
		root: root, targets: []target{{pattern, []string{pattern}}}, n: 1000, seed: 1,
		timeout: 10 * time.Second, procs: 2, max: 3, equivalents: list, progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.cleanUp)
	return p
}

const tinyFile = "fuzz/mutation/testdata/tiny/tiny.go"

func TestTinyPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs a package")
	}
	p := tiny(t,
		&equivalent{Key: weave.Key{File: tinyFile, Func: "Max", Old: "if a > b {", New: "if a >= b {"}, Reason: "equal numbers"},
		&equivalent{Key: weave.Key{File: tinyFile, Func: "Max", Old: "if a != b {", New: "if a == b {"}, Reason: "stale"})
	results, err := p.run()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*result{}
	for _, r := range results {
		got[r.Func+" "+r.Old+" → "+r.New] = r
	}
	for _, c := range []struct {
		name string
		want status
		by   string
	}{
		{"Max if a > b { → if a >= b {", listed, ""},
		{"Max if a > b { → if a <= b {", killed, "TestMax"},
		{"Max return a → return 0", killed, "TestMax"},
		{"Half if n&1 != 0 { → if n&1 == 0 {", killed, "TestHalf"},
		{"Half if n&1 != 0 { → if n&0 != 0 {", survived, ""},
		{`Half return 0, errors.New("odd") → return 1, errors.New("odd")`, unreached, ""},
		{`Half return 0, errors.New("odd") → return 0, nil`, unreached, ""},
		{"Drain list = list[1:] → // assignment removed", killed, "time-out"},
		{"Unused func Unused(n int) int { return n + 1 } → func Unused(n int) int { return n - 1 }", unreached, ""},
	} {
		r := got[c.name]
		if r == nil {
			t.Errorf("%s: no such mutant", c.name)
		} else if r.Status != c.want || !strings.Contains(r.By, c.by) {
			t.Errorf("%s: %s by %q, want %s by %q", c.name, r.Status, r.By, c.want, c.by)
		}
	}
	var out bytes.Buffer
	if p.report(&out, results) {
		t.Error("the report accepts the survivors")
	}
	if !strings.Contains(out.String(), "no such mutant: "+tinyFile) || !strings.Contains(out.String(), "2 of 2 entries are not reviewed") {
		t.Errorf("the report lacks the stale entry:\n%s", &out)
	}
	if t.Failed() {
		for name, r := range got {
			t.Log(name, r.Status, r.By)
		}
	}
}

func TestChooseIsStable(t *testing.T) {
	a, b := tiny(t), tiny(t)
	a.n, b.n = 5, 5
	for _, p := range []*plan{a, b} {
		all := p.chosen
		p.chosen = nil
		p.choose(all)
	}
	if len(a.chosen) != 5 {
		t.Fatalf("%d mutants, want 5", len(a.chosen))
	}
	for i := range a.chosen {
		if a.chosen[i].ID() != b.chosen[i].ID() {
			t.Errorf("mutant %d differs", i)
		}
	}
}

func TestFilesChooseMutants(t *testing.T) {
	p := tiny(t)
	all := len(p.chosen)
	chosen, err := inFiles(slices.Clone(p.chosen), []string{tinyFile})
	if err != nil || len(chosen) != all {
		t.Errorf("chose %d of %d mutants: %v", len(chosen), all, err)
	}
	p.chosen[0].File = "other.go"
	if chosen, err = inFiles(p.chosen, []string{"other.go"}); err != nil || len(chosen) != 1 {
		t.Errorf("chose %d mutants of a file with 1: %v", len(chosen), err)
	}
	if _, err := inFiles(nil, []string{"missing.go"}); err == nil {
		t.Error("accepts a file without mutants")
	}
}

func TestDrawChoosesTargetsBySeed(t *testing.T) {
	one, err := choose(targets, "", 1, 7)
	if err != nil || len(one) != 1 {
		t.Fatalf("%v, %v", one, err)
	}
	again, _ := choose(targets, "", 1, 7)
	if one[0].pattern != again[0].pattern {
		t.Errorf("%s, then %s", one[0].pattern, again[0].pattern)
	}
	if _, err := choose(targets, "./cmd/nothing", 0, 1); err == nil {
		t.Error("choose accepts a package that is not a target")
	}
}
