package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// The file archived/ID of the home contains how many of a session's summaries
// need no more work: they are in a store, or the agent's memory was off. After the
// number it lists the space of each later summary, in order, or noSpace. It is
// written before the first marker that it does not count. A summary without its
// entry is therefore found at the next load, also after later messages, and an
// entry that the user removed is not created again. Without the file the number
// is unknown. The file also counts flushes: sessionlog/FORMAT.md, S43.

// noSpace is written for a summary that stays in the session only.
const noSpace = "-"

// maxArchived limits the file, in bytes.
const maxArchived = 64 << 10

// archiveState is the content of the file archived/ID.
type archiveState struct {
	done   int      // summaries that need no more work; -1: unknown
	spaces []string // of the summaries after them

	flushes, begun int // flushes that need no more work, and the last one that began; 0: unknown
}

// space returns the space of a summary, if it is recorded.
func (a *archiveState) space(number int) (string, bool) {
	if i := number - a.done - 1; i >= 0 && i < len(a.spaces) {
		return a.spaces[i], true
	}
	return "", false
}

func (m *Manager) archivedFile(id string) string { return filepath.Join(m.o.Home, "archived", id) }

// archived returns the content of a session's file, if it is known.
func (m *Manager) archived(id string) (a archiveState, known bool) {
	b, err := vfs.ReadFile(m.o.FS, m.archivedFile(id), maxArchived)
	if err != nil {
		return archiveState{done: -1}, false
	}
	words := strings.Split(strings.TrimSuffix(string(b), "\n"), " ")
	fmt.Sscanf(words[0], "%d/%d/%d", &a.done, &a.flushes, &a.begun)
	if a.counts() != words[0] || a.flushes < 0 {
		return archiveState{done: -1}, false
	}
	for _, name := range words[1:] {
		if name != noSpace && space.Check(name) != nil {
			return archiveState{done: -1}, false
		}
		a.spaces = append(a.spaces, name)
	}
	return a, a.done >= 0
}

// counts returns the first word of the file.
func (a *archiveState) counts() string {
	if a.begun == 0 {
		return strconv.Itoa(a.done)
	}
	return fmt.Sprintf("%d/%d/%d", a.done, a.flushes, a.begun)
}

// setArchived sets the summaries in the file.
func (m *Manager) setArchived(id string, a archiveState) error {
	return m.changeArchived(id, func(now *archiveState) { now.done, now.spaces = a.done, a.spaces })
}

// setFlushes sets the flushes in the file.
func (m *Manager) setFlushes(id string, flushes, begun int) error {
	return m.changeArchived(id, func(now *archiveState) { now.flushes, now.begun = flushes, begun })
}

// changeArchived replaces the file atomically; the content is then on disk.
func (m *Manager) changeArchived(id string, change func(*archiveState)) error {
	m.archiving.Lock()
	defer m.archiving.Unlock()
	a, _ := m.archived(id)
	was := a
	if change(&a); was.counts() == a.counts() && slices.Equal(was.spaces, a.spaces) {
		return nil
	}
	name := m.archivedFile(id)
	err := vfs.MkdirAll(m.o.FS, filepath.Dir(name), 0o700)
	if err == nil {
		err = vfs.WriteFile(m.o.FS, name, 0o600, fmt.Appendln(nil, strings.Join(append([]string{a.counts()}, a.spaces...), " ")))
	}
	return err
}

// archiveSpace returns the space for a summary of a run with a scope. It returns
// noSpace if the run may write no space, or only one with a quota.
func (m *Manager) archiveSpace(meta *sessionlog.Meta, scope tool.Scope) string {
	name, err := scope.WriteSpace(m.o.Own(meta.Workspace, meta.Agent))
	if err != nil || scope.Memory.MaxEntries > 0 {
		return noSpace
	}
	return name
}

// recordedSpace returns a summary's recorded space. Without one, as for a reference
// session, it returns the space of the session's creator.
func (m *Manager) recordedSpace(a *archiveState, meta *sessionlog.Meta, number int) string {
	if name, ok := a.space(number); ok {
		return name
	}
	return m.archiveSpace(meta, m.o.Setup().Config.Origins.Scope(meta.CreatedBy, meta.CreatedBy))
}

// BeforeSummary records, before a summary is in the session, its space, and that it
// is not in the store. It is the hook of [agent.Runner] with this name.
func (m *Manager) BeforeSummary(s *agent.Session) error {
	meta := s.Log.Meta()
	next := m.archiveSpace(&meta, s.Scope)
	was, _ := m.archived(s.Log.ID())
	now := archiveState{done: s.Compactions - len(s.Unarchived)}
	for _, sum := range s.Unarchived {
		now.spaces = append(now.spaces, m.recordedSpace(&was, &meta, sum.Number))
	}
	now.spaces = append(now.spaces, next)
	return m.setArchived(s.Log.ID(), now)
}

// Archive adds a summary to its recorded space as an entry, unless the entry exists
// with the same text. After a crash it may be called again for the same summary. If
// the agent's memory is off, or no space is recorded, the summary stays in the
// session only. If the recorded space no longer exists, Archive returns an error.
func (m *Manager) Archive(a *agent.Agent, s *agent.Session, sum agent.Summary) (name string, err error) {
	if s.Log == nil {
		return "", nil
	}
	was, _ := m.archived(s.Log.ID())
	meta := s.Log.Meta()
	if sum.Late { // the file does not count it
		if a.Memory {
			name, err = m.addArchive(m.archiveSpace(&meta, s.Scope), s.Log, sum)
		}
		return name, err
	}
	in := m.recordedSpace(&was, &meta, sum.Number)
	if a.Memory {
		if name, err = m.addArchive(in, s.Log, sum); err != nil {
			return "", err
		}
	}
	now := archiveState{done: sum.Number}
	if skip := sum.Number - was.done; skip >= 0 {
		now.spaces = was.spaces[min(skip, len(was.spaces)):]
	}
	if err := m.setArchived(s.Log.ID(), now); err != nil {
		// The next load archives the summary again and finds the entry.
		m.o.Log.Warn("record archived summary", "session", s.Log.ID(), "error", err)
	}
	return name, nil
}

// addArchive adds a summary to a space, unless that is noSpace.
func (m *Manager) addArchive(in string, log *sessionlog.Log, sum agent.Summary) (name string, err error) {
	if in == noSpace {
		return "", nil
	}
	meta := log.Meta()
	content, err := m.archiveContent(log.ID(), sum)
	if err != nil {
		return "", err
	}
	aliases := []string{meta.Agent, meta.CreatedBy}
	if meta.Title != "" {
		aliases = append(aliases, meta.Title)
	}
	by := crmem.By{Agent: meta.Agent, Session: log.ID(), Origin: clip.Bytes(meta.CreatedBy, crmem.MaxActorField)}
	err = m.o.Space(in, func(s *crmem.Store) error {
		name = fmt.Sprintf("%s-%d", log.ID(), sum.Number)
		if sum.Late {
			name += ".late"
		}
		base := name
		for n := 2; ; n++ {
			err := s.Apply(by, crmem.Add{Name: name, Content: content, Aliases: aliases, Kind: crmem.Archive})
			if !errors.Is(err, crmem.ErrExists) {
				return err
			}
			// Get also finds aliases. After an error, the entry is empty.
			if e, _ := s.Get(name); e.Name == name && e.Content == content {
				return nil
			}
			name = fmt.Sprintf("%s.%d", base, n)
		}
	})
	return name, err
}

// archiveContent returns the content of the entry for a summary. Of the marker of an agent
// with a role, it is the newest summary, with the lines that this summary covers and the
// name of the archive before it.
func (m *Manager) archiveContent(id string, sum agent.Summary) (string, error) {
	text, ok := agent.NewestSummary(sum.Text)
	if !ok {
		return sum.Text, nil
	}
	if sum.Late {
		return text, nil
	}
	all, err := m.compactions(id)
	if err != nil || sum.Number > len(all) {
		return text, err
	}
	c := all[sum.Number-1]
	head := fmt.Sprintf("---\nlines: %d-%d\n", c.FirstLine, c.LastLine)
	if sum.Number > 1 {
		head += fmt.Sprintf("after: %s-%d\n", id, sum.Number-1)
	}
	return head + "---\n\n" + text, nil
}

// unarchived returns the summaries of a session that may not be in the store. If
// the number is unknown, that is the last summary unless a message followed it:
// its writer may have crashed before it archived.
func (m *Manager) unarchived(id string, all []sessionlog.Compaction, followed bool) []agent.Summary {
	a, known := m.archived(id)
	n := a.done
	if !known || n > len(all) {
		if n = len(all); !followed && n > 0 {
			n--
		}
		if n == len(all) {
			return nil
		}
		// Messages may follow before the summary is in the store.
		if err := m.setArchived(id, archiveState{done: n}); err != nil {
			m.o.Log.Warn("record summary without archive", "session", id, "error", err)
		}
	}
	var list []agent.Summary
	for _, c := range all[n:] {
		list = append(list, agent.Summary{Number: c.N, Text: c.Summary})
	}
	return list
}
