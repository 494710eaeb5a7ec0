package vfs

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxLockText bounds the text of a lock file, in bytes.
const maxLockText = 1 << 16

// LockHolder is the content of a lock file: the present or last lock holder.
type LockHolder struct {
	PID     int
	Boot    string // of the kernel it runs on
	Command string
	Socket  string // where it can be spoken to; "" = nowhere

	// Logs are the salts of the logs that may have the guarded log's name: one
	// salt, or two while the holder replaces the log.
	Logs []uint64

	// Inodes are the possible inodes of the guarded file: one inode, or two
	// while the holder replaces the file.
	Inodes []uint64

	// Clean is the length of the guarded file after the holder's last sync, if
	// the holder closed it cleanly. It is -1 if the holder wrote and did not
	// close it cleanly.
	Clean int64
	// Torn reports that the holder did not complete the recovery after a power
	// cut, or that the text is invalid.
	Torn bool
}

// Text formats the fields as lines of a key and a value. The text is never
// synced: it is for processes of one boot, which share one page cache.
func (h LockHolder) Text() string {
	state := "dirty"
	switch {
	case h.Torn:
		state = "torn"
	case h.Clean >= 0:
		state = fmt.Sprintf("clean %d", h.Clean)
	}
	oneLine := strings.NewReplacer("\n", " ", "\r", " ")
	command := h.Command[:min(len(h.Command), 1<<10)] // the text must stay short enough to be read
	text := fmt.Sprintf("pid %d\nboot %s\ncommand %s\nsocket %s\nstate %s\n",
		h.PID, h.Boot, oneLine.Replace(command), oneLine.Replace(h.Socket), state)
	for _, salt := range h.Logs {
		text += fmt.Sprintf("log %016x\n", salt)
	}
	for _, inode := range h.Inodes {
		text += fmt.Sprintf("inode %d\n", inode)
	}
	return text + sumLine(text)
}

// sumLine returns the last line of a lock file. The text is overwritten in two
// steps; a crash or a full disk may leave a mixture, which the sum detects.
func sumLine(text string) string {
	return fmt.Sprintf("sum %08x\n", crc32.ChecksumIEEE([]byte(text)))
}

// ParseLockHolder parses the text of a lock file. An invalid text counts as
// torn and of no boot, but still identifies the process.
func ParseLockHolder(text string) LockHolder {
	h := LockHolder{Clean: -1}
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
		case "log":
			if salt, err := strconv.ParseUint(value, 16, 64); err == nil {
				h.Logs = append(h.Logs, salt)
			}
		case "inode":
			if inode, err := strconv.ParseUint(value, 10, 64); err == nil {
				h.Inodes = append(h.Inodes, inode)
			}
		case "state":
			h.Torn = value == "torn"
			if n, ok := strings.CutPrefix(value, "clean "); ok {
				if end, err := strconv.ParseInt(n, 10, 64); err == nil && end >= 0 {
					h.Clean = end
				}
			}
		}
	}
	n := len(text) - len("sum 01234567\n")
	if text != "" && (n < 0 || text[n:] != sumLine(text[:n])) {
		h.Boot, h.Clean, h.Torn, h.Logs, h.Inodes = "", -1, true, nil, nil
	}
	return h
}

// LockedError identifies the lock holder. It is ErrLocked.
type LockedError struct {
	Path   string // of the lock file
	Holder LockHolder
}

func (e *LockedError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s: held by another process", e.Path)
	}
	return fmt.Sprintf("%s: held by process %d (%s)", e.Path, e.Holder.PID, e.Holder.Command)
}

// Is makes a LockedError an ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// Acquire takes the lock on the file name. It waits up to wait, then returns a
// *[LockedError].
func Acquire(fsys FS, name string, wait time.Duration) (Locked, error) {
	deadline := time.Now().Add(wait)
	for pause := 500 * time.Microsecond; ; pause = min(pause*2, 8*time.Millisecond) {
		l, err := fsys.Lock(name)
		if err == nil || !errors.Is(err, ErrLocked) {
			return l, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			text, _ := ReadFile(fsys, name, maxLockText) // the message does without
			return nil, &LockedError{Path: name, Holder: ParseLockHolder(string(text))}
		}
		time.Sleep(min(left, pause/2+rand.N(pause)))
	}
}

// WithLock calls change while it holds the lock on the file name, as [Acquire] does. It
// creates the directory of the file.
func WithLock(fsys FS, name string, wait time.Duration, change func() error) error {
	if err := MkdirAll(fsys, filepath.Dir(name), 0o700); err != nil {
		return err
	}
	l, err := Acquire(fsys, name, wait)
	if err != nil {
		return err
	}
	return errors.Join(change(), l.Unlock())
}

// TooLargeError is returned for a file over the size that the caller accepts.
type TooLargeError struct {
	Name      string
	Size, Max int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: %d bytes, more than the limit of %d", e.Name, e.Size, e.Max)
}

// OutOfSpace reports whether a write failed because the disk is full, or a
// quota or the size limit of a file is reached.
func OutOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) || errors.Is(err, syscall.EFBIG)
}
