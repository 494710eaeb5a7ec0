//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// outcome is what a program does with a damaged store.
type outcome int

const (
	intact  outcome = iota // all notes, without a change
	refused                // reading fails with an error, whatever is readable
	found                  // reading succeeds, but the program's own check fails
	silent                 // no error, but a note is missing or changed
)

// damaged changes one byte in a store, at positions spread over its files and then in each
// copy of a text. Last, it cuts the main file in half. After each change, it reads the store
// with a new process and runs the program's check.
func damaged(s *system, dir string) (string, error) {
	whole := filepath.Join(dir, "whole")
	if err := os.MkdirAll(whole, 0o700); err != nil {
		return "", err
	}
	notes := corpus()
	if err := fill(s, whole, notes); err != nil {
		return "", err
	}
	if all, err := s.read(whole); err != nil || kept(all, notes) != len(notes) {
		return "", fmt.Errorf("before the damage: %d of %d notes, %v", kept(all, notes), len(notes), err)
	}
	files, total, err := storeFiles(s, whole)
	if err != nil {
		return "", err
	}
	var spread, inText [4]int
	for i := range perStore {
		got, err := damageOnce(s, dir, whole, notes, func(home string) error {
			return flip(home, files, total*int64(2*i+1)/(2*perStore))
		})
		if err != nil {
			return "", err
		}
		spread[got]++
	}
	for _, at := range copies(whole, files, notes[1].text) {
		got, err := damageOnce(s, dir, whole, notes, func(home string) error { return flip(home, files, at) })
		if err != nil {
			return "", err
		}
		inText[got]++
	}
	half, err := damageOnce(s, dir, whole, notes, func(home string) error {
		return os.Truncate(filepath.Join(home, files[0].name), files[0].size/2)
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("changed bytes: %s; in each copy of a text: %s; half of %s: %s", tally(spread), tally(inText),
		filepath.Base(files[0].name), half), nil
}

// copies returns where the files contain a text, at most perStore positions.
func copies(home string, files []storeFile, text string) (list []int64) {
	start := int64(0)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(home, f.name))
		if err != nil {
			continue
		}
		for i := 0; len(list) < perStore; {
			next := bytes.Index(b[i:], []byte(text))
			if next < 0 {
				break
			}
			list = append(list, start+int64(i+next+4))
			i += next + 1
		}
		start += f.size
	}
	return list
}

func (o outcome) String() string {
	return [...]string{"no loss", "error", "found by its check", "silent loss"}[o]
}

func tally(n [4]int) string {
	var parts []string
	for _, o := range []outcome{refused, found, silent, intact} {
		if n[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[o], o))
		}
	}
	return strings.Join(parts, ", ")
}

type storeFile struct {
	name string
	size int64
}

// storeFiles returns the files that contain notes, without empty ones, and their size.
func storeFiles(s *system, home string) (files []storeFile, total int64, err error) {
	for _, pattern := range s.stores {
		paths, err := filepath.Glob(filepath.Join(home, pattern))
		if err != nil {
			return nil, 0, err
		}
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				return nil, 0, err
			}
			name, err := filepath.Rel(home, path)
			if err != nil {
				return nil, 0, err
			}
			if info.Size() > 0 && info.Mode().IsRegular() && !strings.HasSuffix(name, "-shm") {
				files = append(files, storeFile{name, info.Size()})
				total += info.Size()
			}
		}
	}
	if total == 0 {
		return nil, 0, fmt.Errorf("no file matches %s", s.stores)
	}
	return files, total, nil
}

// flip inverts the lowest bit of the byte at a position of the files in their order.
func flip(home string, files []storeFile, at int64) error {
	for _, f := range files {
		if at >= f.size {
			at -= f.size
			continue
		}
		path := filepath.Join(home, f.name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b[at] ^= 1
		return os.WriteFile(path, b, 0o600)
	}
	return fmt.Errorf("no byte %d", at)
}

// kept returns the number of notes whose name and text occur in a text.
func kept(all string, notes []note) (n int) {
	for _, note := range notes {
		if strings.Contains(all, note.text) && strings.Contains(all, note.name) {
			n++
		}
	}
	return n
}

func damageOnce(s *system, dir, whole string, notes []note, damage func(home string) error) (outcome, error) {
	home := filepath.Join(dir, "damaged")
	if err := os.RemoveAll(home); err != nil {
		return 0, err
	}
	if err := os.CopyFS(home, os.DirFS(whole)); err != nil {
		return 0, err
	}
	if err := damage(home); err != nil {
		return 0, err
	}
	all, err := s.read(home)
	var checked error
	if err == nil && s.check != nil {
		checked = s.check(home)
	}
	if os.Getenv("RIVALS_TRACE") != "" {
		fmt.Fprintln(os.Stderr, s.name, kept(all, notes), err, checked)
	}
	switch {
	case err != nil:
		return refused, nil
	case checked != nil:
		return found, nil
	case kept(all, notes) < len(notes):
		return silent, nil
	}
	return intact, nil
}
