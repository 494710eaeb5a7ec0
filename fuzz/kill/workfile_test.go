package kill_test

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/sessionlog/record"
)

// workFile is what a session of a channel or of work contains.
type workFile struct {
	starts   map[string]string // sessions of work, by its ID
	ends     []string          // states of outcomes
	keys     []string          // of delivered outcomes
	spawned  []string          // IDs in results of spawns
	tasks    int               // user messages with a task or a question
	answered bool              // the last message is an answer
	last     string            // kind of the last line
}

// read reads a session. It returns nil if the session does not exist.
func (r *workRound) read(id string) *workFile {
	if id == "" {
		return nil
	}
	s, err := r.dir.Read(id)
	if err != nil {
		r.errorf("%s: %v", id, err)
		return nil
	}
	defer s.Close()
	f := &workFile{starts: make(map[string]string), last: "meta"}
	for l, err := range s.Lines(0) {
		if err != nil {
			r.errorf("%s: %v", id, err)
			return f
		}
		w, ok := record.ParseWork(l.Raw)
		switch {
		case l.Kind == record.KindUnknown && ok:
			switch f.last = w.Op; w.Op {
			case record.WorkStart:
				if f.starts[w.ID] != "" {
					r.errorf("%s starts twice", w.ID)
				}
				f.starts[w.ID] = w.Session
			case record.WorkEnd:
				f.ends = append(f.ends, w.State)
			}
		case l.Kind == record.KindMessage:
			m := l.Message
			f.last = m.Role
			keys := record.WorkKeys(l.Raw)
			if len(keys) > 0 {
				f.last = "delivery"
			}
			f.keys = append(f.keys, keys...)
			if m.Role == record.RoleUser && (workTasks[m.Content] != "" || slices.Contains(workThoughts, m.Content)) {
				f.tasks++
			}
			if id := spawned(m.Role, m.Content); id != "" {
				f.spawned = append(f.spawned, id)
			}
			answer := m.Role == record.RoleAssistant && len(m.ToolCalls) == 0
			if answer && f.answered {
				r.errorf("%s: line %d: two answers: a run is doubled", id, l.Number)
			}
			f.answered = answer
		}
	}
	return f
}

// step counts a kill after a line.
func (k *workKills) step(last string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kills++
	k.steps[last]++
}

// check checks the files of a home whose work has ended.
func (k *workKills) check(r *workRound) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := r.read(r.parent())
	if p == nil {
		p = new(workFile)
	} else if out, err := exec.Command(r.exe, "sessions", "verify", "--home", r.home).CombinedOutput(); err != nil {
		r.errorf("sessions verify: %v\n%s", err, out)
	}
	children, err := r.dir.Children()
	if err != nil || len(children) != len(p.starts) {
		r.errorf("%d sessions of work, %d starts: %v", len(children), len(p.starts), err)
	}
	for _, id := range slices.Concat(p.spawned, slices.Collect(maps.Keys(r.acked))) {
		if p.starts[id] == "" {
			r.errorf("the spawn of %s was acknowledged, but there is no start", id)
		}
	}
	want := []string{}
	for id, session := range p.starts {
		want = append(want, id+".1")
		c := r.read(session)
		if c == nil {
			continue
		}
		if len(c.ends) != 1 || c.tasks > 1 || !strings.HasSuffix(children[session], "/"+id) {
			r.errorf("%s, %s of %s: outcomes %v, %d tasks, want one", id, session, children[session], c.ends, c.tasks)
		} else if c.ends[0] != record.Done {
			k.failed++
		}
	}
	slices.Sort(want)
	if slices.Sort(p.keys); !slices.Equal(p.keys, want) {
		r.errorf("delivered %v, want %v", p.keys, want)
	}
	for id := range children {
		s, err := r.dir.Read(id)
		if err != nil {
			continue // reported above
		}
		if c, err := s.LenientContext(); err != nil || c.Damaged > 0 {
			r.errorf("%s: %v, %+v", id, err, c)
		}
		s.Close()
	}
	trash, _ := filepath.Glob(filepath.Join(r.home, "sessions", ".trash", "*.jsonl"))
	k.starts, k.acked, k.requests, k.trash = k.starts+len(p.starts), k.acked+len(r.acked), k.requests+r.requests, k.trash+len(trash)
}
