package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"crabmem/daemon/agent"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// BeginFlush returns how many of the messages in the first size bytes of a session's file no
// flush covers, without results of tools, and the number of the last line of these bytes. It
// is the hook of [agent.Runner] with this name, as is EndFlush.
func (m *Manager) BeginFlush(s *agent.Session, size int64) (messages int, upto int64, err error) {
	_, upto, messages, err = m.flushes(s.Log.ID(), size)
	return messages, upto, err
}

func (m *Manager) flushes(id string, size int64) (list []record.Work, last int64, messages int, err error) {
	f, err := m.o.Logs.Read(id)
	if err != nil {
		return nil, 0, 0, err
	}
	defer f.Close()
	f.Size = min(f.Size, size)
	return f.Flushes()
}

// EndFlush stores the notes of a flush of the messages up to a line, with the permissions of
// the session, and returns the names of the notes that it stored. It does so exactly once,
// also after a crash (FORMAT.md of sessionlog, S43). If it returns an error after the record
// is written, the next load of the session applies the notes.
func (m *Manager) EndFlush(s *agent.Session, upto int64, notes []record.Note) (names []string, err error) {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	id := s.Log.ID()
	scope, err := json.Marshal(s.Scope)
	if err != nil {
		return nil, err
	}
	done, err := m.applyFlushes(s.Log)
	if err != nil {
		return nil, err
	}
	w := record.Work{Op: record.WorkFlush, N: done + 1, Upto: upto, Notes: notes, Scope: scope}
	if err := m.setFlushes(id, done, w.N); err != nil {
		return nil, fmt.Errorf("record pending flush: %w", err)
	}
	if err := s.Log.AppendWork(w); err != nil { // ◄ the commit point of the flush
		return nil, fmt.Errorf("write session: %w", err)
	}
	if names, err = m.o.Notes(s.Log, w, false); err != nil {
		return nil, fmt.Errorf("the session has the notes, but the store does not: %w", err)
	}
	return names, m.setFlushes(id, w.N, w.N)
}

// applyFlushes applies the notes of flushes in a session that may not be in the store, and
// returns the number of its flushes. The caller holds flushing.
func (m *Manager) applyFlushes(log *sessionlog.Log) (done int, err error) {
	a, _ := m.archived(log.ID())
	if done = a.flushes; a.begun == done && done > 0 {
		return done, nil
	}
	list, _, _, err := m.flushes(log.ID(), math.MaxInt64)
	if err != nil {
		return 0, err
	}
	for _, w := range list {
		if w.N > done && a.begun > a.flushes { // else the file may be lost
			if _, err := m.o.Notes(log, w, true); err != nil {
				return 0, err
			}
		}
		done = w.N
	}
	if a.begun > a.flushes {
		err = m.setFlushes(log.ID(), done, done)
	}
	return done, err
}

// recoverFlush applies the notes of a flush that a crash interrupted.
func (m *Manager) recoverFlush(log *sessionlog.Log) {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	if a, _ := m.archived(log.ID()); a.begun > a.flushes {
		if _, err := m.applyFlushes(log); err != nil {
			m.o.Log.Warn("apply notes of a flush; the next opening of the session tries again", "session", log.ID(), "error", err)
		}
	}
}

// RecoverFlushes loads the sessions whose flushes a crash interrupted, which applies them.
func (m *Manager) RecoverFlushes(ctx context.Context) {
	list, err := m.o.FS.ReadDir(filepath.Join(m.o.Home, "archived"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.o.Log.Warn("look for interrupted flushes", "error", err)
	}
	for _, e := range list {
		if a, _ := m.archived(e.Name()); a.begun > a.flushes {
			if _, err := m.Open(ctx, e.Name(), ""); err != nil && !errors.Is(err, sessionlog.ErrNotFound) {
				m.o.Log.Warn("load session with an interrupted flush", "session", e.Name(), "error", err)
			}
		}
	}
}
