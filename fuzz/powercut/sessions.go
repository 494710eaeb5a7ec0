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

// sessions writes to three sessions, two of which have their files open at a
// time. After a power cut each session must resume, strictly, with a prefix of
// its writes that contains all acknowledged durable ones.
//
// On a crash state it continues where the prefixes end.
var sessions = workload{write: writeSessions, judge: judgeSessions, resumes: true}

const sessionCount = 3

func sessionsPath(dir string) string { return filepath.Join(dir, "home", "sessions") }

// booted is a file system in another boot. After a power cut the machine
// restarts, and the boot ID in locks identifies interrupted writers.
type booted struct {
	vfs.FS
	id string
}

func (b booted) BootID() string { return b.id }

func openSessions(fsys vfs.FS, boot, dir string) (*sessionlog.Dir, error) {
	return sessionlog.OpenDir(sessionsPath(dir), &sessionlog.Options{FS: booted{fsys, boot}, MaxOpen: 2})
}

// talks are the sessions during the workload. Progress counts the parts of
// each, and, after these, the creation of each.
type talks struct {
	d    *sessionlog.Dir
	logs [sessionCount]*sessionlog.Log
	talk [sessionCount]*history.SessionWriter
	rest [sessionCount][]history.Part // of a write that a power cut tore
	mark func([]byte) error
}

func writeSessions(r run, fsys vfs.FS, dir string, mark func([]byte) error) error {
	t := &talks{mark: mark}
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
			return fmt.Errorf("session %d, part %d: %w", i, t.talk[i].N(), err)
		}
		if rng.IntN(12) == 0 {
			if err := t.reopen(i); err != nil {
				return fmt.Errorf("session %d, after part %d: %w", i, t.talk[i].N(), err)
			}
		}
	}
	return t.d.Close()
}

// begin opens or creates a session, and marks its content. Content that is read
// after a power cut is on disk, so it counts as acknowledged.
func (t *talks) begin(r run, checker *history.SessionChecker, i int) error {
	created := sessionCount + i
	t.talk[i] = history.NewSessionWriter(r.seed, i, 0)
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
		t.rest[i] = t.talk[i].Skip(n)
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

// step makes the next write to a session and marks its acknowledgement.
func (t *talks) step(i int) error {
	op := t.rest[i]
	if t.rest[i] = nil; op == nil {
		op = t.talk[i].Next()
	}
	n := t.talk[i].N()
	if err := t.mark(history.Issued(i, n)); err != nil {
		return err
	}
	if err := t.talk[i].Do(t.logs[i], op); err != nil {
		return err
	}
	if !history.Durable(op) {
		return nil
	}
	return t.mark(history.Acked(i, n))
}

// reopen closes a session, which makes everything in it durable.
func (t *talks) reopen(i int) (err error) {
	if err := t.logs[i].Close(); err != nil {
		return err
	}
	if err := t.mark(history.Acked(i, t.talk[i].N())); err != nil {
		return err
	}
	t.logs[i], err = t.d.Open(history.SessionID(i))
	return err
}

// readSession compares the lines of a session with its writes.
func readSession(d *sessionlog.Dir, checker *history.SessionChecker, i int) (*history.Found, error) {
	s, err := d.Read(history.SessionID(i))
	if err != nil {
		return nil, err
	}
	f, err := checker.Read(i, s.Lines(0))
	return f, errors.Join(err, s.Close())
}

func judgeSessions(r run) func(string, []byte) error {
	checker := history.NewSessionChecker(r.seed, 1)
	return func(dir string, marks []byte) error {
		p := history.NewProgress(2 * sessionCount)
		if err := p.Read(bytes.NewReader(marks)); err != nil {
			return err
		}
		for i := range sessionCount {
			created := p.Acked[sessionCount+i] > 0
			if err := judgeSession(checker, dir, i, created, p.Acked[i:i+1], p.Issued[i:i+1]); err != nil {
				return fmt.Errorf("session %d: %w", i, err)
			}
		}
		return nil
	}
}

// judgeSession checks a session first as a reader, which must find the durable
// lines before any torn one, then as a writer, which recovers the session and
// appends a message.
func judgeSession(checker *history.SessionChecker, dir string, i int, created bool, acked, issued []int) error {
	d, err := openSessions(vfs.OS{}, "judge", dir)
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
	if d, err = openSessions(vfs.OS{}, "judge", dir); err != nil {
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
		return fmt.Errorf("after recovery: %d messages, and there were %d before one more", n, len(c.Messages))
	}
	return nil
}
