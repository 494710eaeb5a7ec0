// Rerun runs go test. If a test fails, it runs that test again by itself, twice. If
// the test passes both times, it is flaky: rerun reports it and exits with 0.
//
//	rerun -known FILE -report FILE -never REGEXP -- go-test-flag... ./package...
//
// The arguments after -- are the flags of go test, and packages that begin with
// "./". A second run uses the same flags and environment, so also the same seed.
//
// These failures are final, and rerun does not run the test again:
//
//   - The package has a report of the race detector, a panic, a fatal error of the
//     runtime, or a time-out, or it failed without a failed test.
//   - The output of the test contains a seed, or a number of leaked goroutines.
//   - "package.Test" matches -never.
//   - -known already lists "package Test": the cause of an earlier failure must go.
//   - More than two tests of all runs with the same -report are flaky.
//
// Rerun prints the output of failed tests, or the lines in which tests log counts.
// The last line of a passed run is "N tests passed, M skipped".
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// flakyLimit is the largest number of flaky tests that a gate passes with.
const flakyLimit = 2

// attempts is the number of times that a failed test must pass by itself.
const attempts = 2

var (
	// fatal matches lines that end the process of a test, or that make its result
	// worthless.
	fatal = regexp.MustCompile(`(?m)^\s*(WARNING: DATA RACE|panic: |fatal error: |signal: |exit status 66$)|race detected during execution of test|test timed out`)
	// final matches the output of a test whose failure says more than a second run.
	final = regexp.MustCompile(`(?i)seeds?\b\W{0,3}(\w+\W{0,2})?\d|\d+ goroutines`)
	// counts matches the lines in which tests log what they checked.
	counts = regexp.MustCompile(`^ +[a-z_0-9]+_test\.go:[0-9]+: (.*(checked|0 lost|0 escapes|killed|found|acknowledged|to the bit|cases)|SKIPPED)`)
)

func main() {
	known := flag.String("known", "", "refuse a flaky test that this `file` lists")
	report := flag.String("report", "", "append the flaky tests and their output to this `file`")
	never := flag.String("never", "^$", "never run a test again if \"package.Test\" matches this `regexp`")
	flag.Parse()
	pattern, err := regexp.Compile(*never)
	if err == nil {
		g := gate{args: flag.Args(), known: *known, report: *report, never: pattern, out: os.Stdout}
		err = g.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rerun:", err)
		os.Exit(1)
	}
}

// gate is one run of go test and of the tests that failed in it.
type gate struct {
	args          []string
	known, report string
	never         *regexp.Regexp
	out           io.Writer
}

// run returns nil if all tests passed or were flaky within the limits.
func (g *gate) run() error {
	r, err := goTest(g.args)
	if err != nil {
		return err
	}
	if r.passed == 0 && len(r.failed) == 0 && !r.bad {
		return errors.New("no tests ran")
	}
	for _, line := range r.logged {
		fmt.Fprintln(g.out, line)
	}
	if r.bad {
		if err := g.rerunEach(r); err != nil {
			fmt.Fprint(g.out, r.failures())
			return err
		}
	}
	fmt.Fprintf(g.out, "%d tests passed, %d skipped\n", r.passed, r.skipped)
	return nil
}

// rerunEach runs each failed test by itself. It returns an error unless all are flaky.
func (g *gate) rerunEach(r *result) error {
	names := r.leaves()
	if err := g.refuse(r, names); err != nil {
		return err
	}
	for _, name := range names {
		for n := range attempts {
			a, err := goTest(single(g.args, name))
			if err != nil {
				return err
			}
			if a.bad || !a.has(name) {
				fmt.Fprint(g.out, a.failures())
				return fmt.Errorf("run %s: failed again in run %d by itself", name, n+2)
			}
		}
	}
	return g.record(r, names)
}

// refuse returns an error if the failures are final.
func (g *gate) refuse(r *result, names []test) error {
	if len(names) == 0 {
		return errors.New("run go test: failed without a failed test")
	}
	for pkg, text := range r.packages {
		if !r.broken[pkg] {
			continue
		}
		if line := fatal.FindString(text.String()); line != "" {
			return fmt.Errorf("run %s: final failure: %s", pkg, strings.TrimSpace(line))
		}
		if !slices.ContainsFunc(names, func(t test) bool { return t.pkg == pkg }) {
			return fmt.Errorf("run %s: failed without a failed test", pkg)
		}
	}
	recorded, err := listed(g.report)
	if err != nil {
		return err
	}
	known, err := listed(g.known)
	if err != nil {
		return err
	}
	for _, name := range names {
		if line := final.FindString(r.text(name)); line != "" {
			return fmt.Errorf("run %s: final failure: %s", name, line)
		}
		if g.never.MatchString(name.pkg + "." + name.name) {
			return fmt.Errorf("run %s: final failure: the gate never runs this test again", name)
		}
		if known[name.top()] {
			return fmt.Errorf("run %s: flaky again: remove its cause, then its line in %s", name, g.known)
		}
		recorded[name.top()] = true
	}
	if len(recorded) > flakyLimit {
		return fmt.Errorf("run go test: %d tests failed or were flaky; the limit is %d", len(recorded), flakyLimit)
	}
	return nil
}

// record appends the flaky tests to the report.
func (g *gate) record(r *result, names []test) error {
	f, err := os.OpenFile(g.report, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(g.out, "FLAKY: %s\n", name)
		fmt.Fprintf(f, "FLAKY: %s\n%s", name.top(), indent(r.text(name)))
	}
	return f.Close()
}

// listed returns the tests that a report or a list of known flaky tests contains: a
// line "package Test" each. In a report the line begins with "FLAKY: ". Indented
// lines and lines that begin with # do not count. A missing file contains none.
func listed(path string) (map[string]bool, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	names := make(map[string]bool)
	for line := range bytes.Lines(data) {
		text := strings.TrimPrefix(strings.TrimRight(string(line), "\n"), "FLAKY: ")
		if text != "" && text[0] != ' ' && text[0] != '#' {
			names[text] = true
		}
	}
	return names, nil
}

// indent puts four spaces before each line.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}
