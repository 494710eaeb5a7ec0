// Package agenthook contains what the hooks of coding agents need: their events, the
// projects that they must not read, the transcripts that they imported, and their log.
package agenthook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/sessionlog/foreign"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Off names a file that excludes the projects in its directory.
const Off = ".crabmem-off"

const (
	maxEvent  = 8 << 20 // bytes: an event may contain the agent's last message
	maxPath   = 4096    // bytes
	maxRecord = 16 << 10
	maxLog    = 64 << 10
	maxLine   = 1000 // bytes of a logged message
)

// Event is a hook's input. Its other fields are ignored.
type Event struct {
	Transcript string `json:"transcript_path"` // empty: no transcript yet
	Dir        string `json:"cwd"`
}

// ReadEvent reads an event.
func ReadEvent(r io.Reader) (e Event, err error) {
	b, err := io.ReadAll(io.LimitReader(r, maxEvent+1))
	switch {
	case err != nil:
		return e, fmt.Errorf("read the event: %w", err)
	case len(b) > maxEvent:
		return e, fmt.Errorf("read the event: more than %s", display.Size(maxEvent))
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("read the event: %w", err)
	}
	if len(e.Transcript) > maxPath || len(e.Dir) > maxPath {
		return e, fmt.Errorf("read the event: a path has more than %d bytes", maxPath)
	}
	return e, nil
}

// Excluded reports whether a directory is in one of the excluded directories, outside
// the directories of only, if there are any, or in or below a directory with a file Off.
// Links and letter case make no difference. All directories are absolute.
func Excluded(fsys vfs.FS, dir string, excluded, only []string) (bool, error) {
	if inAny(fsys, dir, excluded) || len(only) > 0 && !inAny(fsys, dir, only) {
		return true, nil
	}
	for _, dir := range pathForms(fsys, dir) {
		for top := dir; ; top = filepath.Dir(top) {
			_, err := fsys.Lstat(filepath.Join(top, Off))
			if err == nil {
				return true, nil
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				return true, err
			}
			if top == filepath.Dir(top) {
				break
			}
		}
	}
	return false, nil
}

// inAny reports whether a directory is one of a list or in it.
func inAny(fsys vfs.FS, dir string, list []string) bool {
	for _, dir := range pathForms(fsys, dir) {
		for _, x := range list {
			for _, x := range pathForms(fsys, x) {
				if Within(fold(dir), fold(x)) {
					return true
				}
			}
		}
	}
	return false
}

// Within reports whether a clean path is a directory or in it.
func Within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
	return ok && (rest == "" || rest[0] == filepath.Separator)
}

func fold(path string) string { return cases.Fold().String(norm.NFC.String(path)) }

// pathForms returns a path as it is, and with every link followed that exists.
func pathForms(fsys vfs.FS, path string) []string {
	path = filepath.Clean(path)
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		_, err := fsys.Lstat(dir)
		if real, rerr := fsys.Resolve(dir); err == nil && rerr == nil {
			return []string{path, filepath.Join(real, rest)}
		}
		if dir == filepath.Dir(dir) {
			return []string{path}
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// Home is a home's part for hooks.
type Home struct {
	FS  vfs.FS
	Dir string
}

// Record describes a transcript's last import.
type Record struct {
	Transcript string    `json:"transcript"`
	Size       int64     `json:"size"`
	Modified   time.Time `json:"modified"`
	Session    string    `json:"session"` // empty if the transcript has no messages
	Created    bool      `json:"created"` // a hook created the session

	Mark  foreign.Mark `json:"mark"`  // the end of the imported lines
	Bytes int64        `json:"bytes"` // of the session's file
}

func (h Home) records() string { return filepath.Join(h.Dir, "hooks") }

func (h Home) recordFile(transcript string) string {
	sum := sha256.Sum256([]byte(transcript))
	return filepath.Join(h.records(), hex.EncodeToString(sum[:12])+".json")
}

// record returns a transcript's record, or an empty one if it is missing or invalid.
func (h Home) record(transcript string) Record {
	r, err := h.read(h.recordFile(transcript))
	if err != nil || r.Transcript != transcript {
		r = Record{Transcript: transcript}
	}
	return r
}

func (h Home) read(name string) (r Record, err error) {
	b, err := vfs.ReadFile(h.FS, name, maxRecord)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// Changed reports whether a transcript changed since its last import. It does not open
// the transcript, and returns an error if it is not a regular file.
func (h Home) Changed(transcript string) (bool, error) {
	r := h.record(transcript)
	return h.changed(&r)
}

// changed is Changed, and updates the record.
func (h Home) changed(r *Record) (bool, error) {
	fi, err := h.FS.Lstat(r.Transcript)
	if err != nil {
		return false, err
	}
	if !fi.Mode().IsRegular() {
		return false, &fs.PathError{Op: "import", Path: r.Transcript, Err: vfs.ErrNotRegular}
	}
	changed := r.Size != fi.Size() || !r.Modified.Equal(fi.ModTime())
	r.Size, r.Modified = fi.Size(), fi.ModTime()
	return changed, nil
}

// Update waits for other hooks. If the transcript then differs from its record, Update calls
// change with the record, and writes it.
func (h Home) Update(transcript string, wait time.Duration, change func(*Record) error) error {
	return vfs.WithLock(h.FS, filepath.Join(h.records(), "lock"), wait, func() error {
		r := h.record(transcript)
		if changed, err := h.changed(&r); err != nil || !changed {
			return err
		}
		if err := change(&r); err != nil {
			return err
		}
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return vfs.WriteFile(h.FS, h.recordFile(transcript), 0o600, append(b, '\n'))
	})
}

// Records returns the valid records.
func (h Home) Records() (list []Record, err error) {
	names, err := h.FS.ReadDir(h.records())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range names {
		if r, rerr := h.read(filepath.Join(h.records(), e.Name())); rerr == nil && e.Name() == filepath.Base(h.recordFile(r.Transcript)) {
			list = append(list, r)
		}
	}
	return list, err
}

// Remove removes a transcript's record.
func (h Home) Remove(transcript string) error { return h.FS.Remove(h.recordFile(transcript)) }

// LogFile returns the log's path.
func (h Home) LogFile() string { return filepath.Join(h.Dir, "logs", "hooks.log") }

// Log adds a line to the log, and removes the oldest lines from a long log. It ignores
// errors: a hook has no other place for them.
func (h Home) Log(now time.Time, event string, err error) {
	line := fmt.Sprintf("%s %s: %s\n", now.UTC().Format(time.RFC3339), display.Short(display.OneLine(event), 40), display.Short(display.OneLine(err.Error()), maxLine))
	b, rerr := vfs.ReadFile(h.FS, h.LogFile(), maxLog)
	if rerr == nil && len(b)+len(line) > maxLog {
		b = b[len(b)/2:]
		b = b[strings.IndexByte(string(b), '\n')+1:]
	}
	if vfs.MkdirAll(h.FS, filepath.Dir(h.LogFile()), 0o700) == nil {
		_ = vfs.WriteFile(h.FS, h.LogFile(), 0o600, append(b, line...))
	}
}

// LastError returns the log's last line and its time. The line is empty if the log is
// missing or empty.
func (h Home) LastError() (line string, at time.Time, err error) {
	b, err := vfs.ReadFile(h.FS, h.LogFile(), 2*maxLog)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return "", at, err
	}
	line = strings.TrimRight(string(b), "\n")
	line = line[strings.LastIndexByte(line, '\n')+1:]
	text, _, _ := strings.Cut(line, " ")
	at, _ = time.Parse(time.RFC3339, text) // zero for a line of another form
	return line, at, nil
}
