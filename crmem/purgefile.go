package crmem

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// unfinishedLines returns the lines of the file of unfinished purges and redactions.
func (s *Store) unfinishedLines() string {
	var lines strings.Builder
	for _, id := range s.unpurged() {
		fmt.Fprintln(&lines, id)
	}
	for _, r := range s.unredacted() {
		fmt.Fprintln(&lines, r.id, hex.EncodeToString(r.sum[:]))
	}
	return lines.String()
}

// writePurge makes lines of unfinishedLines durable in a file.
func (s *Store) writePurge(id format.ID, lines string) error {
	return vfs.Replace(s.fs, s.path+purgeSuffix, 0o600, bytesTo([]byte(format.IdentityText(id)+lines)))
}

// readPurge adds the purges and redactions in the file of unfinished ones.
func (s *Store) readPurge() error {
	name := s.path + purgeSuffix
	b, err := vfs.ReadFile(s.fs, name, 1<<20)
	if err != nil {
		return err
	}
	rest, ok := strings.CutPrefix(string(b), format.IdentityText(s.id))
	if !ok {
		return fmt.Errorf("%s: not of this store", name)
	}
	for line := range strings.Lines(rest) {
		text, complete := strings.CutSuffix(line, "\n")
		first, sum, redacts := strings.Cut(text, " ")
		id, err := strconv.ParseUint(first, 10, 64)
		r := redaction{id: id}
		n, serr := hex.Decode(r.sum[:], []byte(sum[:min(len(sum), 2*len(r.sum))]))
		switch {
		case err != nil || id == 0 || !complete || redacts && (serr != nil || n < len(r.sum) || len(sum) > 2*n):
			return fmt.Errorf("%s: invalid id %.40q", name, line)
		case redacts:
			s.noteRedaction(r)
		default:
			s.notePurge(id, true)
		}
	}
	return nil
}
