package daemon

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

func (d *Daemon) archivedFile(id string) string { return filepath.Join(d.home, "archived", id) }

// archived returns how many of a session's summaries are done with.
func (d *Daemon) archived(id string) (n int, known bool) {
	b, err := vfs.ReadFile(d.fs, d.archivedFile(id), 32)
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSuffix(string(b), "\n"))
	return n, err == nil && n >= 0
}

// setArchived writes, durably, how many of a session's summaries are done with.
func (d *Daemon) setArchived(id string, n int) error {
	if was, known := d.archived(id); known && was == n {
		return nil
	}
	name := d.archivedFile(id)
	err := vfs.MkdirAll(d.fs, filepath.Dir(name), 0o700)
	if err == nil {
		err = vfs.Replace(d.fs, name, 0o600, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, n)
			return err
		})
	}
	return err
}

// beforeSummary sees to it that a summary is known not to be in the store before
// it is in the session.
func (d *Daemon) beforeSummary(s *agent.Session) error {
	return d.setArchived(s.Log.ID(), s.Compactions-len(s.Unarchived))
}

// archive adds a summary to the store as an entry, unless the entry exists with
// the same text. After a crash it may be called again for the same summary. If
// the agent's memory is off, the summary stays in the session only.
func (d *Daemon) archive(a *agent.Agent, s *agent.Session, sum agent.Summary) (name string, err error) {
	if s.Log == nil {
		return "", nil
	}
	if a.Memory {
		if name, err = d.addArchive(s.Log, sum); err != nil {
			return "", err
		}
	}
	if err := d.setArchived(s.Log.ID(), sum.Number); err != nil {
		// It is looked for again, and found, when the session is next loaded.
		d.log.Warn("a summary is in the store, and that is not written down", "session", s.Log.ID(), "error", err)
	}
	return name, nil
}

func (d *Daemon) addArchive(log *sessionlog.Log, sum agent.Summary) (string, error) {
	m := log.Meta()
	aliases := []string{m.Agent, m.CreatedBy}
	if m.Title != "" {
		aliases = append(aliases, m.Title)
	}
	name := fmt.Sprintf("%s-%d", log.ID(), sum.Number)
	for n := 2; ; n++ {
		err := d.store.Apply(crmem.Add{Name: name, Content: sum.Text, Aliases: aliases, Kind: crmem.Archive})
		if !errors.Is(err, crmem.ErrExists) {
			return name, err
		}
		if e, err := d.store.Get(name); err == nil && e.Name == name && e.Content == sum.Text {
			return name, nil
		}
		name = fmt.Sprintf("%s-%d.%d", log.ID(), sum.Number, n)
	}
}

// unarchived returns the summaries of a session that may not be in the store.
// Where nothing is known that is the last, when nothing was said since: its
// writer may have died in between.
func (d *Daemon) unarchived(id string, all []sessionlog.Compaction, said bool) []agent.Summary {
	n, known := d.archived(id)
	if !known || n > len(all) {
		if n = len(all); !said && n > 0 {
			n--
		}
		if n == len(all) {
			return nil
		}
		// More may be said before it is in the store.
		if err := d.setArchived(id, n); err != nil {
			d.log.Warn("that a summary is not in the store is not written down", "session", id, "error", err)
		}
	}
	var list []agent.Summary
	for _, c := range all[n:] {
		list = append(list, agent.Summary{Number: c.N, Text: c.Summary})
	}
	return list
}
