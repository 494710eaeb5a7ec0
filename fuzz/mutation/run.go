package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"crabmem/fuzz/mutation/weave"
)

// binary is the compiled test binary of a package.
type binary struct {
	path string // import path
	file string
	dir  string // package directory
	env  []string
}

// test is a top-level test of a binary.
type test struct {
	bin  *binary
	name string
	took time.Duration
	hits []byte          // id → 1 if the test reaches the mutant
	skip map[string]bool // tests and subtests that skip without a mutant
}

// status is the result of a mutant.
type status string

const (
	killed    status = "killed"
	survived  status = "survived"
	unreached status = "not reached"
)

// result is a mutant with its status.
type result struct {
	*weave.Mutant
	id     int
	status status
	by     string // test that failed
	tests  int    // number of tests that reach the mutant
	took   time.Duration
	out    string
}

// run compiles the mutants and runs each.
func (p *plan) run() ([]*result, error) {
	p.progress("seed %d: chose %d of %d mutants", p.seed, len(p.chosen), p.all)
	overlay, err := p.weave()
	if err != nil {
		return nil, err
	}
	testers, err := listTesters(p.root, p.patterns...)
	if err != nil {
		return nil, err
	}
	var results []*result
	var changed []string
	for _, m := range p.chosen {
		results = append(results, &result{Mutant: m, id: p.ids[m], status: unreached})
		if slices.Contains(testers[m.Package], m.Package) && !slices.Contains(changed, m.Package) {
			changed = append(changed, m.Package)
		}
	}
	if err := p.stage(overlay, changed, results); err != nil || p.own {
		return results, err
	}
	var left []*result
	var more []string
	for _, r := range results {
		if r.status == killed {
			continue
		}
		left = append(left, r)
		for _, path := range testers[r.Package] {
			if !slices.Contains(changed, path) && !slices.Contains(more, path) {
				more = append(more, path)
			}
		}
	}
	return results, p.stage(overlay, more, left)
}

// stage runs the tests of packages with each mutant.
func (p *plan) stage(overlay string, packages []string, results []*result) error {
	binaries, err := p.build(overlay, packages)
	if err != nil {
		return err
	}
	tests, err := p.measure(binaries)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	done := 0
	return p.each(len(results), func(i int) error {
		r := results[i]
		if err := p.mutant(r, tests); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		p.progress("[%d/%d] %s:%d %s %s %s %.1fs", done, len(results), r.File, r.Line, r.ID(), r.status, r.by, r.took.Seconds())
		return nil
	})
}

// each calls f for 0 to n-1, with procs calls at a time. It stops at the first
// error and returns it.
func (p *plan) each(n int, f func(int) error) error {
	next := make(chan int)
	stop := make(chan struct{})
	var once sync.Once
	var first error
	var wg sync.WaitGroup
	for range p.procs {
		wg.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					once.Do(func() { first = err; close(stop) })
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-stop:
			break feed
		}
	}
	close(next)
	wg.Wait()
	return first
}

// weave writes the changed sources and returns the path of the overlay file for the
// go command.
func (p *plan) weave() (string, error) {
	replace := map[string]string{}
	for _, pkg := range p.packages {
		ids := map[*weave.Mutant]int{}
		for m, id := range p.ids {
			if m.Package == pkg.Path {
				ids[m] = id
			}
		}
		if len(ids) == 0 {
			continue
		}
		for path, text := range pkg.Source(ids) {
			woven := filepath.Join(p.tmp, fmt.Sprintf("%d_%s", len(replace), filepath.Base(path)))
			if err := os.WriteFile(woven, text, 0o600); err != nil {
				return "", err
			}
			replace[path] = woven
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(p.tmp, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// build compiles the tests of packages.
func (p *plan) build(overlay string, packages []string) ([]*binary, error) {
	env, err := environment(overlay)
	if err != nil {
		return nil, err
	}
	var binaries []*binary
	for _, path := range packages {
		dir, err := os.MkdirTemp(p.tmp, "")
		if err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(path, "/")
		binaries = append(binaries, &binary{
			path: path, dir: filepath.Join(p.root, name), env: slices.Clip(env),
			file: filepath.Join(dir, filepath.Base(path)+".test"),
		})
	}
	err = p.each(len(binaries), func(i int) error {
		b := binaries[i]
		if err := os.Chmod(filepath.Dir(b.file), 0o755); err != nil {
			return err
		}
		cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", b.file, b.path)
		cmd.Dir = p.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compile %s: %w\n%s", b.path, err, out)
		}
		return nil
	})
	return binaries, err
}

// measure runs each test alone without a mutant. It returns the passing tests, fast
// ones first.
func (p *plan) measure(binaries []*binary) ([]*test, error) {
	skip, err := regexp.Compile(p.skip)
	if err != nil {
		return nil, err
	}
	var tests []*test
	for _, b := range binaries {
		cmd := exec.Command(b.file, "-test.list=^(Test|Fuzz|Example)")
		cmd.Dir, cmd.Env = b.dir, b.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("list the tests of %s: %w\n%s", b.path, err, out)
		}
		for name := range strings.FieldsSeq(string(out)) {
			if !skip.MatchString(name) {
				tests = append(tests, &test{bin: b, name: name})
			}
		}
	}
	began := time.Now()
	var mu sync.Mutex
	passed := make([]*test, 0, len(tests))
	err = p.each(len(tests), func(i int) error {
		t := tests[i]
		o, err := p.record(t)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if !o.passed {
			p.progress("not used: the test fails without a mutant: %s %s\n%s", t.bin.path, t.name, last(o.out, 2000))
			return nil
		}
		passed = append(passed, t)
		return nil
	})
	slices.SortFunc(passed, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	p.progress("recorded %d tests in %.0fs", len(tests), time.Since(began).Seconds())
	return passed, err
}

// record runs a test without a mutant and stores the mutants that it reaches.
func (p *plan) record(t *test) (outcome, error) {
	hits, err := os.CreateTemp(p.tmp, "hits")
	if err != nil {
		return outcome{}, err
	}
	defer os.Remove(hits.Name())
	defer hits.Close()
	if err := hits.Truncate(int64(len(p.chosen) + 1)); err != nil {
		return outcome{}, err
	}
	o, err := p.start(process{bin: t.bin, names: []string{t.name}, hits: hits.Name(), timeout: 10 * time.Minute})
	if err != nil {
		return outcome{}, err
	}
	t.took = o.took
	t.skip = map[string]bool{}
	for _, s := range skips.FindAllStringSubmatch(o.out, -1) {
		t.skip[s[1]] = true
	}
	t.hits, err = os.ReadFile(hits.Name())
	return o, err
}

// mutant runs the tests that reach a mutant until one fails.
func (p *plan) mutant(r *result, tests []*test) error {
	began := time.Now()
	defer func() { r.took += time.Since(began) }()
	reaching := slices.DeleteFunc(slices.Clone(tests), func(t *test) bool { return t.hits[r.id] == 0 })
	if len(reaching) == 0 {
		return nil
	}
	r.tests += len(reaching)
	r.status = survived
	for _, batch := range batches(reaching) {
		by, out, err := p.kills(r.id, batch)
		if err != nil {
			return err
		}
		if by != "" {
			r.status, r.by, r.out = killed, by, out
			return nil
		}
	}
	return nil
}

// batches groups tests into processes: many fast tests of a binary, or one slow
// test.
func batches(tests []*test) [][]*test {
	var all [][]*test
	for _, limit := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second} {
		byBinary := map[*binary]int{}
		for len(tests) > 0 && tests[0].took <= limit {
			t := tests[0]
			tests = tests[1:]
			i, ok := byBinary[t.bin]
			if !ok {
				i = len(all)
				byBinary[t.bin] = i
				all = append(all, nil)
			}
			all[i] = append(all[i], t)
		}
	}
	for _, t := range tests {
		all = append(all, []*test{t})
	}
	return all
}

// kills runs tests of one binary with a mutant. It returns the name of a failing
// test, or "". A test may fail under load, so a failure must happen twice. A crash
// or a timeout need happen only once.
func (p *plan) kills(id int, batch []*test) (by, out string, err error) {
	r := process{bin: batch[0].bin, id: id}
	for _, t := range batch {
		r.names = append(r.names, t.name)
		r.timeout += 10 * t.took
	}
	r.timeout = max(r.timeout, p.timeout)
	for range 2 {
		o, err := p.start(r)
		if err != nil {
			return "", "", err
		}
		if o.passed {
			return skipped(batch, o.out), o.out, nil
		}
		if o.timedOut {
			return r.bin.path + " time-out", o.out, nil
		}
		if c := crashed.FindString(o.out); c != "" {
			return r.bin.path + " " + c, o.out, nil
		}
		f := failed.FindStringSubmatch(o.out)
		if f == nil {
			return r.bin.path + " exit", o.out, nil
		}
		by, out = r.bin.path+" "+f[1], o.out
		r.names = []string{f[1]}
	}
	return by, out, nil
}

// skipped returns a test that is skipped only with the mutant, or "". CI fails on
// such a skip.
func skipped(batch []*test, out string) string {
	for _, s := range skips.FindAllStringSubmatch(out, -1) {
		if !slices.ContainsFunc(batch, func(t *test) bool { return t.skip[s[1]] }) {
			return batch[0].bin.path + " skips " + s[1]
		}
	}
	return ""
}

// last returns at most n bytes of the end of a text.
func last(s string, n int) string {
	return string(bytes.ToValidUTF8([]byte(s[max(0, len(s)-n):]), nil))
}
