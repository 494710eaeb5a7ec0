package crmem

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"crabmem/crmem/vfs"
)

// Holder is what the lock file says about who holds, or held, the store.
type Holder struct {
	PID     int
	Boot    string // of the kernel it runs on
	Command string
	Socket  string // where it can be spoken to; "" = nowhere

	// clean is the length of the log after the holder's last sync, when the
	// holder left it so; -1 when it wrote and did not say that it ended well.
	clean int64
}

// The text of the lock file is a line a fact. It is never synced: it speaks
// to the processes of one boot, which share one page cache.
func (h *Holder) text() string {
	state := "dirty"
	if h.clean >= 0 {
		state = fmt.Sprintf("clean %d", h.clean)
	}
	oneLine := strings.NewReplacer("\n", " ", "\r", " ")
	command := h.Command[:min(len(h.Command), 1<<10)] // the text must stay short enough to be read
	return fmt.Sprintf("pid %d\nboot %s\ncommand %s\nsocket %s\nstate %s\n",
		h.PID, h.Boot, oneLine.Replace(command), oneLine.Replace(h.Socket), state)
}

// parseHolder reads the text of a lock file. What it cannot read counts as
// dirty.
func parseHolder(text string) Holder {
	h := Holder{clean: -1}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "pid":
			h.PID, _ = strconv.Atoi(value)
		case "boot":
			h.Boot = value
		case "command":
			h.Command = value
		case "socket":
			h.Socket = value
		case "state":
			if n, ok := strings.CutPrefix(value, "clean "); ok {
				if end, err := strconv.ParseInt(n, 10, 64); err == nil && end >= 0 {
					h.clean = end
				}
			}
		}
	}
	return h
}

// readHolder returns what the lock file beside a store says.
func readHolder(fsys vfs.FS, path string) (Holder, error) {
	b, err := vfs.ReadFile(fsys, path+lockSuffix, 1<<16)
	return parseHolder(string(b)), err
}

// acquire takes the lock, waiting up to Options.LockWait. It returns what the
// holder before left in the file; fresh when there was none.
func (s *Store) acquire() (before Holder, fresh bool, err error) {
	path := s.path + lockSuffix
	deadline := time.Now().Add(s.opts.LockWait)
	for pause := 500 * time.Microsecond; ; pause = min(pause*2, 8*time.Millisecond) {
		s.lock, err = s.fs.Lock(path)
		if err == nil {
			break
		}
		if !errors.Is(err, vfs.ErrLocked) {
			return before, false, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			h, _ := readHolder(s.fs, s.path) // the message does without
			return before, false, &LockedError{Path: path, Holder: h}
		}
		time.Sleep(min(left, pause/2+rand.N(pause)))
	}
	text, err := s.lock.Text()
	if err != nil {
		return before, false, errors.Join(err, s.lock.Unlock())
	}
	before = parseHolder(text)
	s.holder = Holder{PID: os.Getpid(), Boot: s.fs.BootID(), Command: s.opts.Command, Socket: s.opts.Socket, clean: before.clean}
	if before.Boot != s.holder.Boot {
		s.holder.clean = -1
	}
	return before, text == "", nil
}

func (s *Store) unlock() error {
	err := s.lock.Unlock()
	s.lock = nil
	return err
}

// markDirty says in the lock file, before the first thing is written, that the
// log is in use: from here on only markClean makes it trusted again.
func (s *Store) markDirty() error {
	if s.dirty {
		return nil
	}
	s.holder.clean = -1
	if err := s.lock.SetText(s.holder.text()); err != nil {
		return err
	}
	s.dirty = true
	return nil
}

// markClean says that the log is synced up to end.
func (s *Store) markClean(end int64) error {
	s.holder.clean = end
	return s.lock.SetText(s.holder.text())
}
