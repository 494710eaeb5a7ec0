package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rig is a module with tests that count their runs.
type rig struct {
	t      *testing.T
	dir    string
	report string
	known  string
}

// newRig returns a module with a package p and a test with a body.
func newRig(t *testing.T, body string) *rig {
	dir := t.TempDir()
	r := &rig{t, dir, filepath.Join(dir, "report"), filepath.Join(dir, "known")}
	r.write("go.mod", "module rig\n\ngo 1.26\n")
	r.write("p/p_test.go", `package p

import (
	"os"
	"strings"
	"testing"
	"time"
)

// run returns the number of this run.
func run(name string) int {
	f, err := os.OpenFile(name+".runs", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	f.WriteString("x")
	data, _ := os.ReadFile(name + ".runs")
	return len(data)
}

var _ = strings.ToUpper
var _ = time.Second

func TestPasses(t *testing.T) {}

`+body)
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod -vet=off")
	t.Setenv("GOWORK", "off")
	return r
}

func (r *rig) write(name, text string) {
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		r.t.Fatal(err)
	}
}

// gate runs the gate and returns its output and error.
func (r *rig) gate(args ...string) (string, error) {
	var out strings.Builder
	g := gate{
		args:  append(args, "./..."),
		known: r.known, report: r.report,
		never: regexp.MustCompile(`\.TestModel$`),
		out:   &out,
	}
	err := g.run()
	return out.String(), err
}

// runs returns how often the test with a name ran.
func (r *rig) runs(name string) int {
	data, err := os.ReadFile(filepath.Join(r.dir, "p", name+".runs"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return len(data)
}

const once = `func Test%[1]s(t *testing.T) {
	if run("%[1]s") == 1 {
		t.Error("failed in the first run")
	}
}
`

func TestFlaky(t *testing.T) {
	r := newRig(t, fmt.Sprintf(once, "One"))
	out, err := r.gate()
	if err != nil || !strings.Contains(out, "FLAKY: rig/p TestOne\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := r.runs("One"); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
	report, err := os.ReadFile(r.report)
	if err != nil || !strings.HasPrefix(string(report), "FLAKY: rig/p TestOne\n    ") || !strings.Contains(string(report), "failed in the first run") {
		t.Errorf("%v: report %q", err, report)
	}
}

func TestFlakySubtest(t *testing.T) {
	r := newRig(t, `func TestTop(t *testing.T) {
	for _, name := range []string{"a b", "c"} {
		t.Run(name, func(t *testing.T) {
			if run(name) == 1 && name == "a b" {
				t.Error("failed in the first run")
			}
		})
	}
}
`)
	out, err := r.gate("-run", "Top|Passes")
	if err != nil || !strings.Contains(out, "FLAKY: rig/p TestTop/a_b\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	if a, c := r.runs("a b"), r.runs("c"); a != 3 || c != 1 {
		t.Errorf("%d and %d runs, want 3 and 1", a, c)
	}
}

func TestFailsAgain(t *testing.T) {
	for name, body := range map[string]string{
		"always":            `if run("X") > 0 { t.Error("fails") }`,
		"in the second run": `if n := run("X"); n == 1 || n == 3 { t.Error("fails") }`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "func TestX(t *testing.T) {"+body+"}\n")
			out, err := r.gate()
			if err == nil || !strings.Contains(err.Error(), "failed again") || !strings.Contains(out, "FAIL: rig/p TestX") {
				t.Fatalf("%v\n%s", err, out)
			}
			if _, err := os.Stat(r.report); err == nil {
				t.Error("the report lists a test that failed again")
			}
		})
	}
}

func TestNeverRunAgain(t *testing.T) {
	cases := []struct{ name, test, body string }{
		{"race", "X", `if run("X") == 1 { n := 0; go func() { n++ }(); n++; time.Sleep(100 * time.Millisecond) }`},
		{"panic", "X", `if run("X") == 1 { panic("once") }`},
		{"time-out", "X", `if run("X") == 1 { time.Sleep(time.Hour) }`},
		{"exit", "X", `if run("X") == 1 { os.Exit(1) }`},
		{"seed", "X", `if run("X") == 1 { t.Error("seed 17: wrong result") }`},
		{"logged seed", "X", `t.Log("10 programs (seed 17)"); if run("X") == 1 { t.Error("wrong result") }`},
		{"leak", "X", `if run("X") == 1 { t.Error("12 goroutines, 9 before") }`},
		{"model", "Model", `if run("Model") == 1 { t.Error("wrong result") }`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, fmt.Sprintf("func Test%s(t *testing.T) {%s}\n", c.test, c.body))
			args := []string{"-timeout", "20s"}
			if c.name == "race" {
				args = append(args, "-race")
			}
			if c.name == "time-out" {
				args = []string{"-timeout", "1s"}
			}
			out, err := r.gate(args...)
			if err == nil || !strings.Contains(err.Error(), "final failure") && !strings.Contains(err.Error(), "without a failed test") {
				t.Fatalf("%v\n%s", err, out)
			}
			if n := r.runs(c.test); n != 1 {
				t.Errorf("%d runs, want 1: %v\n%s", n, err, out)
			}
		})
	}
}

func TestKnownFlaky(t *testing.T) {
	r := newRig(t, fmt.Sprintf(once, "One"))
	r.write("known", "# a comment\nrig/p TestOne\n")
	if out, err := r.gate(); err == nil || !strings.Contains(err.Error(), "flaky again") || r.runs("One") != 1 {
		t.Fatalf("%v, %d runs\n%s", err, r.runs("One"), out)
	}
}

func TestFlakyLimit(t *testing.T) {
	r := newRig(t, fmt.Sprintf(once, "One")+fmt.Sprintf(once, "Two"))
	if out, err := r.gate(); err != nil {
		t.Fatalf("two flaky tests: %v\n%s", err, out)
	}
	r.write("p/three_test.go", "package p\n\nimport \"testing\"\n\n"+fmt.Sprintf(once, "Three"))
	if out, err := r.gate(); err == nil || !strings.Contains(err.Error(), "the limit is 2") {
		t.Errorf("a third flaky test in a later layer: %v\n%s", err, out)
	}
}

func TestBuildFails(t *testing.T) {
	r := newRig(t, "func TestX(t *testing.T) { undefined() }\n")
	if out, err := r.gate(); err == nil || !strings.Contains(out, "undefined: undefined") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestNoTests(t *testing.T) {
	r := newRig(t, "")
	if out, err := r.gate("-run", "^TestNothing$"); err == nil || !strings.Contains(err.Error(), "no tests ran") {
		t.Fatalf("%v\n%s", err, out)
	}
}
