//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const (
	kills    = 20  // trials of the row on kill -9
	each     = 200 // notes of each of two processes that write at once
	syncs    = 10  // writes whose system calls are counted
	perStore = 10  // positions of a changed byte
)

// row is one line in the table.
type row struct {
	id, title string
	cell      func(s *system, dir string) (string, error)
}

var rows = []row{
	{"size", "what must be installed", installed},
	{"kill", fmt.Sprintf("kill -9 after %d acknowledged writes", kills), killed},
	{"both", fmt.Sprintf("2 processes write %d notes each", each), concurrent},
	{"recall", "recall: hits in the first 5", recalled},
	{"history", "the text before a change, and before a removal", remembered},
	{"files", "notes to files, and back into an empty store", copied},
	{"damage", "a changed byte, or half of the file", damaged},
}

func installed(s *system, _ string) (string, error) {
	total := int64(0)
	for _, path := range s.size {
		err := filepath.Walk(path, func(_ string, f os.FileInfo, err error) error {
			if err == nil && f.Mode().IsRegular() {
				total += f.Size()
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s, %.0f MB", s.needs, float64(total)/1e6), nil
}

// killed writes a note, kills the program as soon as it acknowledges, and reads the
// store with a new process. It also counts the writes that the program synced to the
// disk before it acknowledged.
func killed(s *system, dir string) (string, error) {
	lost, problems := 0, 0
	for _, n := range numbered("kill", kills) {
		p, err := s.open(dir)
		if err != nil {
			return "", err
		}
		err = p.add(n)
		p.stop()
		if err != nil {
			return "", err
		}
		all, err := s.read(dir)
		if err != nil {
			problems++
		}
		if !strings.Contains(all, n.text) {
			lost++
		}
	}
	text := fmt.Sprintf("%d lost", lost)
	if problems > 0 {
		text += fmt.Sprintf(", %d stores unreadable", problems)
	}
	synced, err := syncedWrites(s, dir)
	if err != nil {
		return text + "; syncs unknown: " + err.Error(), nil
	}
	return fmt.Sprintf("%s; %d of %d writes synced first", text, synced, syncs), nil
}

// syncedWrites returns the number of writes before whose acknowledgment the program
// called fsync or a similar function.
func syncedWrites(s *system, dir string) (int, error) {
	trace := filepath.Join(dir, "strace.out")
	p, err := s.open(dir, "strace", "-f", "-q", "-e", "trace=fsync,fdatasync,sync_file_range,msync,syncfs", "-e", "signal=none", "-A", "-o", trace)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	count := func() int { b, _ := os.ReadFile(trace); return strings.Count(string(b), "sync") }
	synced := 0
	for i, n := range numbered("sync", syncs+1) {
		before := count()
		if err := p.add(n); err != nil {
			return 0, err
		}
		if i > 0 && count() > before { // the first write may create files
			synced++
		}
	}
	return synced, nil
}

// concurrent writes notes from two programs at once, on a store that exists. Both run
// before the first write. A program that does not start fails all writes.
func concurrent(s *system, dir string) (string, error) {
	if err := fill(s, dir, numbered("first", 1)); err != nil {
		return "", err
	}
	var wg sync.WaitGroup
	var failed [2][]error
	for i := range failed {
		p, err := s.open(dir)
		if err != nil {
			failed[i] = append(failed[i], fmt.Errorf("program %d does not start: %w", i+1, err))
			continue
		}
		defer p.stop()
		wg.Go(func() {
			for _, n := range numbered([]string{"left", "right"}[i], each) {
				if err := p.add(n); err != nil {
					failed[i] = append(failed[i], fmt.Errorf("%s: %w", n.name, err))
				}
			}
		})
	}
	wg.Wait()
	errs := append(failed[0], failed[1]...)
	all, err := s.read(dir)
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	missing := 0
	for _, n := range append(numbered("left", each), numbered("right", each)...) {
		if !strings.Contains(all, n.text) {
			missing++
		}
	}
	text := fmt.Sprintf("%d of %d missing, %d errors", missing, 2*each, len(errs))
	if len(errs) > 0 {
		text += " (" + short(errs[0].Error()) + ")"
	}
	if s.check != nil {
		if err := s.check(dir); err != nil {
			return text + "; check: " + short(err.Error()), nil
		}
		text += "; check passes"
	}
	return text, nil
}

func fill(s *system, dir string, notes []note) error {
	p, err := s.open(dir)
	if err != nil {
		return err
	}
	defer p.stop()
	for _, n := range notes {
		if err := p.add(n); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
	}
	return nil
}

func recalled(s *system, dir string) (string, error) {
	notes := corpus()
	p, err := s.open(dir)
	if err != nil {
		return "", err
	}
	defer p.stop()
	for _, n := range notes {
		if err := p.add(n); err != nil {
			return "", err
		}
	}
	hits, of := map[string]int{}, map[string]int{}
	for _, q := range queries {
		of[q.kind]++
		out, err := p.search(q.words)
		if err != nil {
			return "", fmt.Errorf("%s: %w", q.words, err)
		}
		if os.Getenv("RIVALS_TRACE") != "" {
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", s.name, q.words, short(out))
		}
		for _, n := range notes {
			if n.text == q.target && (strings.Contains(out, n.name) || strings.Contains(out, n.text)) {
				hits[q.kind]++
				hits["all"]++
			}
		}
	}
	var parts []string
	for _, kind := range []string{"same words", "form", "misspelling", "Chinese", "Russian", "meaning"} {
		parts = append(parts, fmt.Sprintf("%s %d/%d", kind, hits[kind], of[kind]))
	}
	return fmt.Sprintf("%d of %d (%s)", hits["all"], len(queries), strings.Join(parts, ", ")), nil
}

// errNoCommand means that a program has no command for it.
var errNoCommand = errors.New("no command for it")

func remembered(s *system, dir string) (string, error) {
	if s.history == nil {
		return "", errNoCommand
	}
	return s.history(dir)
}

// copied copies the notes of recall to files and back, and counts equal texts.
func copied(s *system, dir string) (string, error) {
	if s.copy == nil {
		return "", errNoCommand
	}
	home, to := filepath.Join(dir, "home"), filepath.Join(dir, "to")
	for _, d := range []string{home, to} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", err
		}
	}
	notes := corpus()
	if err := fill(s, home, notes); err != nil {
		return "", err
	}
	before, err := s.read(home)
	if err != nil {
		return "", err
	}
	if err := s.copy(home, to); err != nil {
		return "", err
	}
	all, err := s.read(to)
	if err != nil {
		return "", err
	}
	p, err := s.open(to)
	if err != nil {
		return "", err
	}
	defer p.stop()
	if os.Getenv("RIVALS_TRACE") != "" {
		fmt.Fprintln(os.Stderr, before)
	}
	out, err := p.search("parking permit")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %d notes back, search finds one: %t", kept(all, notes), kept(before, notes), strings.Contains(out, notes[1].name)), nil
}
