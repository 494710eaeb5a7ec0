package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// test names a test or subtest of a package.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + " " + t.name }

// top returns "package Test" without the names of subtests.
func (t test) top() string {
	name, _, _ := strings.Cut(t.name, "/")
	return t.pkg + " " + name
}

// result is what go test printed.
type result struct {
	bad             bool // go test exited with an error
	passed, skipped int
	failed          []test
	ran             map[test]bool // passed tests
	output          map[test]*strings.Builder
	packages        map[string]*strings.Builder // all output of a package
	broken          map[string]bool             // packages that failed
	logged          []string                    // lines in which tests log counts
}

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// goTest runs go test with arguments and reads its events.
func goTest(args []string) (*result, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &result{
		ran:      make(map[test]bool),
		output:   make(map[test]*strings.Builder),
		packages: make(map[string]*strings.Builder),
		broken:   make(map[string]bool),
	}
	lines := bufio.NewReader(pipe)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			e = event{Action: "output", Output: string(line)} // a text of go itself
		}
		r.add(e)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	r.bad = err != nil
	return r, nil
}

func (r *result) add(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "output", "build-output":
		appendTo(r.packages, e.Package+e.ImportPath, e.Output)
		if !strings.HasPrefix(e.Output, "=== ") {
			appendTo(r.output, t, e.Output)
		}
		if counts.MatchString(e.Output) {
			r.logged = append(r.logged, strings.TrimRight(e.Output, "\n"))
		}
	case "pass":
		if e.Test != "" {
			r.passed++
			r.ran[t] = true
		}
	case "skip":
		if e.Test != "" {
			r.skipped++
		}
	case "fail":
		if e.Test != "" {
			r.failed = append(r.failed, t)
		} else {
			r.broken[e.Package] = true
		}
	}
}

func appendTo[K comparable](m map[K]*strings.Builder, key K, text string) {
	if m[key] == nil {
		m[key] = new(strings.Builder)
	}
	m[key].WriteString(text)
}

// has reports whether the test passed.
func (r *result) has(t test) bool { return r.ran[t] }

// text returns the output of a test and its subtests.
func (r *result) text(t test) string {
	var b strings.Builder
	for name, text := range r.output {
		if name == t || name.pkg == t.pkg && strings.HasPrefix(name.name, t.name+"/") {
			b.WriteString(text.String())
		}
	}
	return b.String()
}

// leaves returns the failed tests without those that failed only in a subtest.
func (r *result) leaves() []test {
	var names []test
	for _, t := range r.failed {
		if !slices.ContainsFunc(r.failed, func(o test) bool {
			return o.pkg == t.pkg && strings.HasPrefix(o.name, t.name+"/")
		}) {
			names = append(names, t)
		}
	}
	return names
}

// failures returns the output of failed tests and of packages that failed without
// one, and then a line for each. CI systems often show only the end of an output.
func (r *result) failures() string {
	var b, names strings.Builder
	for _, t := range r.failed {
		if text := r.output[t]; text != nil {
			fmt.Fprintf(&b, "--- output of %s\n%s", t, text)
		}
		fmt.Fprintf(&names, "FAIL: %s\n", t)
	}
	for name, text := range r.output {
		if name.name == "" && (r.broken[name.pkg] || name.pkg == "") {
			b.WriteString(text.String())
		}
	}
	return b.String() + names.String()
}

// single returns the arguments of go test that run one test or subtest.
func single(args []string, t test) []string {
	flags := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "./") })
	var pattern []string
	for name := range strings.SplitSeq(t.name, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(name)+"$")
	}
	return append(flags, "-count=1", "-run", strings.Join(pattern, "/"), t.pkg)
}
