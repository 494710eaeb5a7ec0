package session

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/daemon/errtable"
)

// Interrupted is the kind of a turn whose daemon was killed.
const Interrupted = "interrupted"

// errInterrupted is the recorded error of a turn whose daemon was killed.
var errInterrupted = errors.New("the daemon stopped before the turn ended")

// maxFailure limits the message of a failure record, in bytes.
const maxFailure = 4 << 10

// kind returns the kind of the error of a run.
func (m *Manager) kind(err error, cancelled bool) string {
	kind := m.o.Kind(err)
	if kind == errtable.Failed && cancelled {
		return errtable.Cancelled
	}
	return kind
}

// report logs a turn without an answer.
func (m *Manager) report(l *Session, kind string, err error) {
	level, what := slog.LevelWarn, "turn failed"
	if kind == errtable.Cancelled {
		level, what = slog.LevelInfo, "turn canceled"
	}
	m.o.Log.Log(context.Background(), level, what, "session", l.log.ID(), "agent", l.agent, "kind", kind, "error", err)
}

// failure is the reason why a turn has no answer.
type failure struct {
	kind string
	err  error
}

// recordEarlier adds the failure of the newest turn to the session's file if the turn
// has no answer and the file contains no failure. The caller holds the run slot.
func (m *Manager) recordEarlier(l *Session) {
	f := l.unrecorded
	l.unrecorded = nil
	if !l.session.Interrupted() {
		return
	}
	if f == nil {
		f = &failure{Interrupted, errInterrupted}
		m.report(l, f.kind, f.err)
	}
	m.writeFailure(l, f)
}

// recordFailure adds the failure of the newest turn to the session's file, and syncs
// it. If err means that the file could not be written, recordFailure keeps the
// failure, and the next run adds it. The caller holds the run slot.
func (m *Manager) recordFailure(l *Session, kind string, err error) {
	f := &failure{kind, err}
	if slices.ContainsFunc(unwritten, func(lost error) bool { return errors.Is(err, lost) }) {
		l.unrecorded = f
		return
	}
	m.writeFailure(l, f)
}

func (m *Manager) writeFailure(l *Session, f *failure) {
	text := clip.Marked(strings.ToValidUTF8(f.err.Error(), "\uFFFD"), maxFailure)
	err := l.log.AppendFailure(f.kind, text)
	if err == nil {
		err = l.log.Sync()
	}
	if err != nil {
		m.o.Log.Warn("record turn failure", "session", l.log.ID(), "error", err)
	}
	l.session.Failed = true
}
