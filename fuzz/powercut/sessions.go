//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/kill/history"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// sessions writes to three sessions. At most two session files are open at a time.
// After a power cut each session must resume with a prefix of its writes. The prefix
// must contain all acknowledged durable writes.
//
// On a crash state sessions continues after the prefixes.
var sessions = workload{write: writeSessions, checker: sessionsChecker, resumes: true}

const sessionCount = 3

func sessionsPath(dir string) string { return filepath.Join(dir, "home", "sessions") }

// booted is a file system with another boot ID. After a power cut the machine
// restarts, and the boot ID in a lock identifies an interrupted writer.
type booted struct {
	vfs.FS
	id string
}

func (b booted) BootID() string { return b.id }

func openSessions(fsys vfs.FS, boot, dir string) (*sessionlog.Dir, error) {
	return sessionlog.OpenDir(sessionsPath(dir), &sessionlog.Options{FS: booted{fsys, boot}, MaxOpen: 2})
}

// sessionSet contains the sessions of the workload. In the marks, writer i counts the
// parts of session i, and writer sessionCount+i counts the creation of session i.
type sessionSet struct {
	d       *sessionlog.Dir
	logs    [sessionCount]*sessionlog.Log
	writers [sessionCount]*history.SessionWriter
	rest    [sessionCount][]history.Part // rest of a torn write
	mark    func([]byte) error
}

func writeSessions(r run, fsys vfs.FS, dir string, mark func([]byte) error) error {
	t := &sessionSet{mark: mark}
	var err error
	if t.d, err = openSessions(fsys, fmt.Sprintf("write, resume=%t", r.resume), dir); err != nil {
		return err
	}
	checker := history.NewSessionChecker(r.seed, 1)
	for i := range sessionCount {
		if err := t.begin(r, checker, i); err != nil {
			return fmt.Errorf("session %d: %w", i, err)
		}
	}
	rng := r.rng()
	for range count(r, 120) {
		i := rng.IntN(sessionCount)
		if err := t.step(i); err != nil {
			return fmt.Errorf("session %d, part %d: %w", i, t.writers[i].N(), err)
		}
		if rng.IntN(12) == 0 {
			if err := t.reopen(i); err != nil {
				return fmt.Errorf("session %d, after part %d: %w", i, t.writers[i].N(), err)
			}
		}
	}
	return t.d.Close()
}

// begin opens or creates a session and marks its content. Content that a reader finds
// after a power cut is durable, so it counts as acknowledged.
func (t *sessionSet) begin(r run, checker *history.SessionChecker, i int) error {
	created := sessionCount + i
	t.writers[i] = history.NewSessionWriter(r.seed, i, 0)
	l, err := t.d.Open(history.SessionID(i))
	if err == nil {
		t.logs[i] = l
		f, err := readSession(t.d, checker, i)
		if err == nil {
			err = f.Bad
		}
		if err != nil {
			return err
		}
		n := f.Parts[0]
		t.rest[i] = t.writers[i].Skip(n)
		return errors.Join(t.mark(history.Acked(created, 1)), t.mark(history.Issued(i, n)), t.mark(history.Acked(i, n)))
	}
	if !errors.Is(err, sessionlog.ErrNotFound) {
		return err
	}
	if t.logs[i], err = t.d.Create(history.SessionMeta(i)); err != nil {
		return err
	}
	return t.mark(history.Acked(created, 1))
}

// step makes the next write to a session and marks the start and the acknowledgement.
func (t *sessionSet) step(i int) error {
	op := t.rest[i]
	if t.rest[i] = nil; op == nil {
		op = t.writers[i].Next()
	}
	n := t.writers[i].N()
	if err := t.mark(history.Issued(i, n)); err != nil {
		return err
	}
	if err := t.writers[i].Do(t.logs[i], op); err != nil {
		return err
	}
	if !history.Durable(op) {
		return nil
	}
	return t.mark(history.Acked(i, n))
}

// reopen closes and opens a session. Close makes all writes durable.
func (t *sessionSet) reopen(i int) (err error) {
	if err := t.logs[i].Close(); err != nil {
		return err
	}
	if err := t.mark(history.Acked(i, t.writers[i].N())); err != nil {
		return err
	}
	t.logs[i], err = t.d.Open(history.SessionID(i))
	return err
}

// readSession compares the lines of a session with the writes.
func readSession(d *sessionlog.Dir, checker *history.SessionChecker, i int) (*history.Found, error) {
	s, err := d.Read(history.SessionID(i))
	if err != nil {
		return nil, err
	}
	f, err := checker.Read(i, s.Lines(0))
	return f, errors.Join(err, s.Close())
}

func sessionsChecker(r run) func(string, []byte) error {
	checker := history.NewSessionChecker(r.seed, 1)
	return func(dir string, marks []byte) error {
		p := history.NewProgress(2 * sessionCount)
		if err := p.Read(bytes.NewReader(marks)); err != nil {
			return err
		}
		for i := range sessionCount {
			created := p.Acked[sessionCount+i] > 0
			if err := checkSession(checker, dir, i, created, p.Acked[i:i+1], p.Issued[i:i+1]); err != nil {
				return fmt.Errorf("session %d: %w", i, err)
			}
		}
		return nil
	}
}

// checkSession checks a session as a reader and then as a writer. The reader must find
// the durable lines before a torn line. The writer recovers the session and appends a
// message.
func checkSession(checker *history.SessionChecker, dir string, i int, created bool, acked, issued []int) error {
	d, err := openSessions(vfs.OS{}, "check", dir)
	if err != nil {
		return err
	}
	f, err := readSession(d, checker, i)
	if errors.Is(err, sessionlog.ErrNotFound) && !created {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read only: %w", err)
	}
	if err := f.Within(acked, issued); err != nil {
		return fmt.Errorf("read only: %w", err)
	}

	l, err := d.Open(history.SessionID(i))
	if err != nil {
		return err
	}
	c, err := l.Context()
	if err == nil {
		f, err = readSession(d, checker, i)
	}
	if err == nil {
		err = errors.Join(f.Bad, f.Within(acked, issued))
	}
	if err == nil {
		err = f.Context(c)
	}
	const after = "after the power cut"
	if err == nil {
		err = l.Append(sessionlog.Message{Role: record.RoleUser, Content: after})
	}
	if err = errors.Join(err, l.Close(), d.Close()); err != nil {
		return err
	}
	if d, err = openSessions(vfs.OS{}, "check", dir); err != nil {
		return err
	}
	s, err := d.Read(history.SessionID(i))
	if err != nil {
		return err
	}
	again, err := s.Context()
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("after recovery: %w", err)
	}
	if n := len(again.Messages); n != len(c.Messages)+1 || again.Messages[n-1].Content != after {
		return fmt.Errorf("after recovery and one append: %d messages, want %d+1", n, len(c.Messages))
	}
	return nil
}
