package session

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/sessionlog"
)

// How many of a session's summaries are done with, because they are in the store
// or are to be in none, stands in archived/ID of the home. It is written before
// the first marker that it does not count: so a summary without its entry is found
// whatever was said after it, and one that the user has forgotten is not made
// anew. Of a session without the file nothing is known.

func (m *Manager) archivedFile(id string) string { return filepath.Join(m.o.Home, "archived", id) }

// archived returns how many of a session's summaries are done with.
func (m *Manager) archived(id string) (n int, known bool) {
	b, err := vfs.ReadFile(m.o.FS, m.archivedFile(id), 32)
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSuffix(string(b), "\n"))
	return n, err == nil && n >= 0
}

// setArchived writes, durably, how many of a session's summaries are done with.
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

// BeforeSummary sees to it that a summary is known not to be in the store before
// it is in the session.
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
		// It is looked for again, and found, when the session is next loaded.
		m.o.Log.Warn("a summary is in the store, and that is not written down", "session", s.Log.ID(), "error", err)
	}
	return name, nil
}

func (m *Manager) addArchive(log *sessionlog.Log, sum agent.Summary) (string, error) {
	meta := log.Meta()
	aliases := []string{meta.Agent, meta.CreatedBy}
	if meta.Title != "" {
		aliases = append(aliases, meta.Title)
	}
	name := fmt.Sprintf("%s-%d", log.ID(), sum.Number)
	for n := 2; ; n++ {
		err := m.o.Store.Apply(crmem.Add{Name: name, Content: sum.Text, Aliases: aliases, Kind: crmem.Archive})
		if !errors.Is(err, crmem.ErrExists) {
			return name, err
		}
		if e, err := m.o.Store.Get(name); err == nil && e.Name == name && e.Content == sum.Text {
			return name, nil
		}
		name = fmt.Sprintf("%s-%d.%d", log.ID(), sum.Number, n)
	}
}

// unarchived returns the summaries of a session that may not be in the store.
// Where nothing is known that is the last, when nothing was said since: its
// writer may have died in between.
func (m *Manager) unarchived(id string, all []sessionlog.Compaction, said bool) []agent.Summary {
	n, known := m.archived(id)
	if !known || n > len(all) {
		if n = len(all); !said && n > 0 {
			n--
		}
		if n == len(all) {
			return nil
		}
		// More may be said before it is in the store.
		if err := m.setArchived(id, n); err != nil {
			m.o.Log.Warn("that a summary is not in the store is not written down", "session", id, "error", err)
		}
	}
	var list []agent.Summary
	for _, c := range all[n:] {
		list = append(list, agent.Summary{Number: c.N, Text: c.Summary})
	}
	return list
}
