package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// tiny returns a plan with all mutants of testdata/tiny.
func tiny(t *testing.T) *plan {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(&config{
		root: root, patterns: []string{"./fuzz/mutation/testdata/tiny"}, n: 1000, seed: 1,
		timeout: 10 * time.Second, procs: 2, max: 6, skip: "^TestMutants$", progress: t.Logf,
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
	p := tiny(t)
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
		{"Max if a > b { → if a >= b {", survived, ""}, // equivalent
		{"Max if a > b { → if a <= b {", killed, "TestMax"},
		{"Max return a → return 0", killed, "TestMax"},
		{"Half if n&1 != 0 { → if n&1 == 0 {", killed, "TestHalf"},
		{"Half if n&1 != 0 { → if n&0 != 0 {", survived, ""},
		{`Half return 0, errors.New("odd") → return 1, errors.New("odd")`, unreached, ""},
		{`Half return 0, errors.New("odd") → return 0, nil`, unreached, ""},
		{"Drain list = list[1:] → // assignment removed", killed, "time-out"},
		{"Double func Double(n int) int { return n + n } → func Double(n int) int { return n - n }", killed, "TestCopy"},
		{"Unused func Unused(n int) int { return n + 1 } → func Unused(n int) int { return n - 1 }", unreached, ""},
	} {
		r := got[c.name]
		if r == nil {
			t.Errorf("%s: no such mutant", c.name)
		} else if r.status != c.want || !strings.Contains(r.by, c.by) {
			t.Errorf("%s: %s by %q, want %s by %q", c.name, r.status, r.by, c.want, c.by)
		}
	}
	var out bytes.Buffer
	if p.report(&out, results) {
		t.Error("the report accepts the survivors")
	}
	if want := "seed 1: "; !strings.Contains(out.String(), want) {
		t.Errorf("the report lacks %q:\n%s", want, &out)
	}
	if want := "fuzz/mutation/testdata/tiny/tiny.go:"; !strings.Contains(out.String(), want) {
		t.Errorf("the report lacks %q:\n%s", want, &out)
	}
	if t.Failed() {
		for name, r := range got {
			t.Log(name, r.status, r.by)
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

func TestTestersImportThePackage(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	testers, err := listTesters(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, tester string
		want         bool
	}{
		{"crabmem/bm25", "crabmem/bm25", true},
		{"crabmem/bm25", "crabmem/crmem", true},
		{"crabmem/bm25", "crabmem/daemon/trust", false},
		{"crabmem/crmem/vfs/faultfs", "crabmem/crmem/vfs/faultfs", false}, // has no tests
		{"crabmem/crmem/vfs", "crabmem/fuzz/crash", true},
	} {
		if got := slices.Contains(testers[c.path], c.tester); got != c.want {
			t.Errorf("%s tests %s: %v, want %v", c.tester, c.path, got, c.want)
		}
	}
	programs, err := programPackages(root)
	if err != nil || !slices.Contains(programs, "crabmem/crmem") || slices.Contains(programs, "crabmem/fuzz/mutation/weave") {
		t.Errorf("packages of the programs: %v, %v", programs, err)
	}
}
