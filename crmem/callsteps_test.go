package crmem_test

import (
	"errors"
	"fmt"
	"slices"

	"crabmem/bm25/analysis"
	. "crabmem/crmem"
)

// step makes one random call and reports it.
func (u *reportUser) step() {
	if u.random.IntN(3) == 0 {
		u.setFault(25)
	}
	if u.s == nil || u.random.IntN(8) == 0 {
		u.reopen()
		return
	}
	switch u.random.IntN(15) {
	case 0, 1, 2, 3:
		ops := u.ops()
		entries, err := u.s.Do(ops...)
		u.report(fmt.Sprintf("do %+v", ops), entries, err)
	case 4, 5:
		name, content := u.name(), u.content()
		e, err := u.s.Remember(name, content, u.aliases())
		u.report("remember "+name, e, err)
	case 6:
		name := u.name()
		u.report("forget "+name, nil, u.s.Forget(name))
	case 7, 8:
		u.report("checkpoint", nil, u.s.Checkpoint())
	case 9:
		u.update()
	case 10:
		before := u.s.Identity()
		err := u.s.NewIdentity()
		after := u.s.Identity()
		u.report("new identity", []bool{before == "", after == "", before == after}, err)
	case 11, 12:
		u.search()
	case 13:
		name := u.name()
		e, err := u.s.Get(name)
		u.report("get "+name, e, err)
		u.report("writable", nil, u.s.Writable())
		u.report("stats", u.s.Stats(), nil)
		u.report("state", []any{u.s.Len(), u.s.Version(), u.s.NextID(), u.s.Path()}, nil)
	default:
		u.lookFromOutside()
	}
}

// reopen ends the process, or closes the store, and opens it again.
func (u *reportUser) reopen() {
	switch u.random.IntN(6) {
	case 0:
		u.m = u.m.Kill()
		u.s = nil
	case 1:
		u.m = u.m.Crash()
		u.s = nil
	case 2:
		u.m.Limit = 0
		u.close()
	case 3:
		u.m.Limit = int64(256<<10 + u.random.IntN(2000))
		u.close()
	default:
		u.close()
	}
	if u.m.Hook == nil { // another machine: the other process is gone, too
		u.m.Hook, u.other = u.hook, nil
	}
	if u.other != nil && u.random.IntN(2) == 0 {
		u.mu.Lock()
		u.inside = true
		u.mu.Unlock()
		_ = u.other.Close()
		u.mu.Lock()
		u.inside = false
		u.mu.Unlock()
		u.other = nil
	}
	u.options()
	if u.random.IntN(3) == 0 {
		u.setFault(60)
	}
	u.open()
}

var reportNames = []string{"one", "two", "three", "four", "five words in a name", "6"}

func (u *reportUser) name() string { return reportNames[u.random.IntN(len(reportNames))] }

func (u *reportUser) content() string {
	return []string{"", "text", "other text", "words of a longer text, which has\ntwo lines"}[u.random.IntN(4)]
}

func (u *reportUser) aliases() []string {
	return [][]string{nil, nil, {}, {"alias"}, {"alias", "second alias"}, {"one"}, {"twice", "twice"}}[u.random.IntN(7)]
}

func (u *reportUser) ops() []Op {
	ops := make([]Op, u.random.IntN(8)/2)
	if len(ops) == 0 && u.random.IntN(4) > 0 {
		ops = make([]Op, 1)
	}
	for i := range ops {
		name := u.name()
		switch u.random.IntN(8) {
		case 0, 1, 2:
			ops[i] = Add{Name: name, Content: u.content(), Aliases: u.aliases(), Kind: Kind(u.random.IntN(9) / 4)}
		case 3:
			ops[i] = Update{Name: name, Content: u.content(), Aliases: u.aliases()}
		case 4:
			ops[i] = Alias{Name: name, Aliases: u.aliases()}
		case 5:
			ops[i] = Remove{Name: name}
		case 6:
			ops[i] = Restore{Entry: Entry{ID: uint64(u.random.IntN(12)), Name: name, CreatedAt: 7, Content: u.content(), Aliases: u.aliases()}}
		default:
			e, _ := u.s.Get(name)
			if u.random.IntN(4) == 0 {
				e.Content += "!"
			}
			e.Name = name
			ops[i] = Unchanged{Entry: e}
		}
	}
	return ops
}

// update replaces the state by a changed one.
func (u *reportUser) update() {
	kind, content := u.random.IntN(5), u.content()
	calls := 0
	err := u.s.Update(func(sn *Snapshot) (*Snapshot, error) {
		calls++
		switch kind {
		case 0:
			return nil, nil
		case 1:
			return nil, errors.New("error of the caller")
		}
		entries := slices.Collect(sn.All())
		if kind == 2 && len(entries) > 0 {
			entries = entries[1:]
		}
		entries = append(entries, Entry{ID: sn.NextID, Name: fmt.Sprint("new ", sn.NextID), Content: content})
		return NewSnapshot(sn.NextID+1+uint64(kind), entries)
	})
	u.report("update", calls, err)
}

// search searches, and reports the figures of the index.
func (u *reportUser) search() {
	q := Query{
		Text:     []string{"text", "words", "one", "alias", "texx", "-other text", `"longer text"`, "name:words", "Five_Words in-a name", ""}[u.random.IntN(10)],
		Limit:    u.random.IntN(4),
		Analyzer: analysis.Analyzer(u.random.IntN(9) / 4),
		Kinds:    [][]Kind{nil, nil, {Note}, {Archive}, {Note, Archive}, {7}}[u.random.IntN(6)],
		Count:    u.random.IntN(2) == 0,
		Explain:  u.random.IntN(3) == 0,
		Syntax:   u.random.IntN(2) == 0,
	}
	if u.random.IntN(3) == 0 {
		u.s.Index(analysis.Standard)
	}
	r, err := u.s.Search(u.t.Context(), q)
	var hits []string
	for _, h := range r.Hits {
		hits = append(hits, fmt.Sprintf("%d %.3f", h.ID, h.Score))
	}
	u.report(fmt.Sprintf("search %+v", q), []any{hits, r.Total, r.Searched, r.Corrections, len(r.Explanations)}, err)
	id := uint64(1 + u.random.IntN(4))
	e, ok, err := u.s.Explain(u.t.Context(), q, id)
	u.report(fmt.Sprintf("explain %d", id), []any{fmt.Sprintf("%.3f", e.Score), ok}, err)
	stats, err := u.s.IndexStats(u.t.Context(), q.Analyzer)
	u.report("index", stats.Docs, err)
}

// lookFromOutside uses the files from another process.
func (u *reportUser) lookFromOutside() {
	switch u.random.IntN(4) {
	case 0:
		r, err := Check(u.m, u.path, 0)
		u.report("check", r, err)
	case 1:
		r, err := Repair(u.path, &RepairOptions{FS: u.m})
		u.report("repair", r, err)
	case 2:
		s, err := Open(u.path, &Options{FS: u.m, ReadOnly: true, Warn: u.o.Warn})
		n := -1
		if err == nil {
			n = s.Len()
			err = s.Close()
		}
		u.report("reader", n, err)
	default:
		s, err := Open(u.path, &Options{FS: u.m, Warn: u.o.Warn})
		if err == nil {
			err = errors.Join(s.Apply(Add{Name: "by another writer"}), s.Close())
		}
		u.report("writer", nil, err)
	}
}
