package session

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"crabmem/bm25/snippet"
	"crabmem/crmem"
	"crabmem/crmem/history"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/sessionlog"
)

// The file archived/ID of the home contains how many of a session's summaries
// need no more work: they are in the store, or the agent's memory was off. It is
// written before the first marker that it does not count. A summary without its
// entry is therefore found at the next load, also after later messages, and an
// entry that the user removed is not created again. Without the file the number
// is unknown.

func (m *Manager) archivedFile(id string) string { return filepath.Join(m.o.Home, "archived", id) }

// archived returns how many of a session's summaries need no more work, if that
// is known.
func (m *Manager) archived(id string) (n int, known bool) {
	b, err := vfs.ReadFile(m.o.FS, m.archivedFile(id), 32)
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSuffix(string(b), "\n"))
	return n, err == nil && n >= 0
}

// setArchived replaces the file atomically; the number is then on disk.
func (m *Manager) setArchived(id string, n int) error {
	if was, known := m.archived(id); known && was == n {
		return nil
	}
	name := m.archivedFile(id)
	err := vfs.MkdirAll(m.o.FS, filepath.Dir(name), 0o700)
	if err == nil {
		err = vfs.Replace(m.o.FS, name, 0o600, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, n)
			return err
		})
	}
	return err
}

// BeforeSummary records, before a summary is in the session, that it is not in
// the store. It is the hook of [agent.Runner] with this name.
func (m *Manager) BeforeSummary(s *agent.Session) error {
	return m.setArchived(s.Log.ID(), s.Compactions-len(s.Unarchived))
}

// Archive adds a summary to the store as an entry, unless the entry exists with
// the same text. After a crash it may be called again for the same summary. If
// the agent's memory is off, the summary stays in the session only.
func (m *Manager) Archive(a *agent.Agent, s *agent.Session, sum agent.Summary) (name string, err error) {
	if s.Log == nil {
		return "", nil
	}
	if a.Memory {
		if name, err = m.addArchive(s.Log, sum); err != nil {
			return "", err
		}
	}
	if err := m.setArchived(s.Log.ID(), sum.Number); err != nil {
		// The next load archives the summary again and finds the entry.
		m.o.Log.Warn("record archived summary", "session", s.Log.ID(), "error", err)
	}
	return name, nil
}

func (m *Manager) addArchive(log *sessionlog.Log, sum agent.Summary) (string, error) {
	meta := log.Meta()
	aliases := []string{meta.Agent, meta.CreatedBy}
	if meta.Title != "" {
		aliases = append(aliases, meta.Title)
	}
	by := crmem.By{Agent: meta.Agent, Session: log.ID(), Origin: snippet.Clip(meta.CreatedBy, history.MaxField)}
	name := fmt.Sprintf("%s-%d", log.ID(), sum.Number)
	for n := 2; ; n++ {
		err := m.o.Store.Apply(by, crmem.Add{Name: name, Content: sum.Text, Aliases: aliases, Kind: crmem.Archive})
		if !errors.Is(err, crmem.ErrExists) {
			return name, err
		}
		// Get also finds aliases. After an error, the entry is empty.
		if e, _ := m.o.Store.Get(name); e.Name == name && e.Content == sum.Text {
			return name, nil
		}
		name = fmt.Sprintf("%s-%d.%d", log.ID(), sum.Number, n)
	}
}

// unarchived returns the summaries of a session that may not be in the store. If
// the number is unknown, that is the last summary unless a message followed it:
// its writer may have crashed before it archived.
func (m *Manager) unarchived(id string, all []sessionlog.Compaction, followed bool) []agent.Summary {
	n, known := m.archived(id)
	if !known || n > len(all) {
		if n = len(all); !followed && n > 0 {
			n--
		}
		if n == len(all) {
			return nil
		}
		// Messages may follow before the summary is in the store.
		if err := m.setArchived(id, n); err != nil {
			m.o.Log.Warn("record summary without archive", "session", id, "error", err)
		}
	}
	var list []agent.Summary
	for _, c := range all[n:] {
		list = append(list, agent.Summary{Number: c.N, Text: c.Summary})
	}
	return list
}
