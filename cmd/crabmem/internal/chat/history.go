package chat

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
)

// The history file contains the messages of all chats, one per line, with \n for
// a line end and \\ for a backslash. Only the user can read it.
const (
	maxHistory     = 1000    // messages
	maxHistoryText = 8 << 10 // bytes of a message; the history omits longer ones
)

var (
	toHistory   = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	fromHistory = strings.NewReplacer(`\\`, `\`, `\n`, "\n")
)

func historyFile(home string) string { return filepath.Join(home, "history") }

// loadHistory returns the messages, oldest first. It removes the oldest messages
// of a file with too many.
func loadHistory(fsys vfs.FS, home string) ([]string, error) {
	name := historyFile(home)
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	const most = maxHistory * 2 * maxHistoryText
	from := max(fi.Size()-most, 0)
	var texts []string
	s := bufio.NewScanner(io.NewSectionReader(f, from, fi.Size()-from))
	s.Buffer(nil, most)
	for s.Scan() {
		if text := cli.CleanInput(fromHistory.Replace(s.Text())); strings.TrimSpace(text) != "" && len(text) <= maxHistoryText {
			texts = append(texts, text)
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(texts) <= 2*maxHistory && from == 0 {
		return texts[max(len(texts)-maxHistory, 0):], nil
	}
	texts = texts[max(len(texts)-maxHistory, 0):]
	return texts, vfs.Replace(fsys, name, 0o600, func(w io.Writer) error {
		for _, text := range texts {
			if _, err := io.WriteString(w, toHistory.Replace(text)+"\n"); err != nil {
				return err
			}
		}
		return nil
	})
}

// addHistory adds a message. It omits a message that begins with a space, as
// shells do.
func addHistory(fsys vfs.FS, home, text string) error {
	if text == "" || text[0] == ' ' || len(text) > maxHistoryText {
		return nil
	}
	f, err := fsys.OpenFile(historyFile(home), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(toHistory.Replace(text) + "\n"))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// PurgeHistory removes the messages for which contains returns true from the history
// file, unless dry is set. It returns the path of the file if it has such messages.
func PurgeHistory(fsys vfs.FS, home string, dry bool, contains func(string) bool) (path string, err error) {
	name := historyFile(home)
	b, err := vfs.ReadFile(fsys, name, 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	var kept []byte
	for line := range bytes.Lines(b) {
		if !contains(fromHistory.Replace(string(line))) {
			kept = append(kept, line...)
		}
	}
	if len(kept) == len(b) {
		return "", nil
	}
	if !dry {
		err = vfs.WriteFile(fsys, name, 0o600, kept)
	}
	return name, err
}
