package tree

import (
	"errors"
	"fmt"
	"math"
	"time"

	"crabmem/crmem"
)

// loadPlan is the planned change of a load.
type loadPlan struct {
	snapshot *crmem.Snapshot // the store after the load
	report   LoadReport
	lost     []string // entries that only the store changed and the load overwrites; Guard refuses them

	base      *base      // of the store before the load
	exchanged []basePage // for the base after the load
}

// differs reports whether the load changes the store.
func (p *loadPlan) differs(cur *crmem.Snapshot) bool {
	r := &p.report
	return len(r.Added)+len(r.Changed)+len(r.Removed) > 0 || p.snapshot.NextID != cur.NextID
}

// absent is the hash of no entry.
const absent = "-"

// planner computes a loadPlan.
type planner struct {
	tree  *loadedTree
	merge bool
	plan  *loadPlan
	cur   map[string]*crmem.Entry
	base  map[string]*basePage
	based bool // the base applies

	fixed []crmem.Entry  // keep their id
	fresh []*crmem.Entry // get the id of their page if it is unused, else a new one
	asked []bool         // of fresh: the page has an id
}

// plan selects the side for every name in store and tree.
//
// A side is unchanged if it has the entry that they exchanged last, by a dump or a
// load. Replace always selects the tree. Merge selects the changed side. If both
// changed, a text wins over a removal, and two texts are a conflict: the store
// keeps its text. Without a base both sides have changed.
func (t *loadedTree) plan(cur *crmem.Snapshot, merge bool, now time.Time) (*loadPlan, error) {
	if len(t.pages) == 0 && cur.Len() > 0 {
		return nil, &Error{Path: t.dir, Msg: "no pages: loading this tree would empty the store", Remedy: "to empty a store, run crabmem forget for each entry"}
	}
	base, _, err := t.bases.read(t.state.id, cur)
	if err != nil {
		return nil, err
	}
	pl := &planner{tree: t, merge: merge, plan: &loadPlan{base: base}, cur: make(map[string]*crmem.Entry, cur.Len()),
		based: base.applies(t.state)}
	if pl.based {
		pl.base = base.byName()
	}
	for e := range cur.All() {
		pl.cur[e.Name] = &e
	}
	inTree := make(map[string]bool, len(t.pages))
	for i := range t.pages {
		p := &t.pages[i]
		inTree[p.Name] = true
		pl.decide(p.Name, p, pl.value(p, now))
	}
	for e := range cur.All() {
		if !inTree[e.Name] {
			pl.decide(e.Name, nil, nil)
		}
	}
	if err := pl.number(cur); err != nil {
		return nil, err
	}
	return pl.plan, nil
}

// value returns the entry of a page. Fields that the page lacks keep their
// present values. Without the entry in the base, an edited date cannot be
// detected, and an entry that keeps its name keeps its time.
func (pl *planner) value(p *treePage, now time.Time) *crmem.Entry {
	e := p.Entry
	cur, base := pl.cur[e.Name], pl.base[e.Name]
	switch {
	case cur != nil && cur.Kind == e.Kind && (base == nil || !p.hasTime):
		e.CreatedAt = cur.CreatedAt
	case p.hasTime && (base == nil || base.Date == nil || *base.Date != uint64(e.CreatedAt)):
	case base != nil:
		e.CreatedAt = crmem.UnixTime(base.Created)
	default:
		e.CreatedAt = crmem.UnixTime(max(now.Unix(), 0))
	}
	return &e
}

// decide selects the side for one name. p and tree are nil if the tree has no
// page of that name.
func (pl *planner) decide(name string, p *treePage, tree *crmem.Entry) {
	plan, cur := pl.plan, pl.cur[name]
	c, t, b := hashOf(cur), hashOf(tree), absent
	if known := pl.base[name]; known != nil {
		b = known.Entry
	}
	curSame, treeSame := pl.based && c == b, pl.based && t == b
	conflict := false
	switch {
	case c == t:
		if cur != nil {
			pl.keep(cur)
		}
	case !pl.merge:
		if !curSame && (pl.based || cur != nil) && pl.tree.state.dumped() && len(pl.cur) > 0 {
			plan.lost = append(plan.lost, name)
		}
		pl.take(name, cur, p, tree)
	case curSame || !treeSame && cur == nil:
		pl.take(name, cur, p, tree)
	case treeSame || tree == nil:
		if cur != nil {
			pl.keep(cur)
		}
	default:
		conflict = true
		pl.keep(cur)
		plan.report.Conflicts = append(plan.report.Conflicts, Conflict{
			Name: name, Page: p.path, File: conflictDir + "/" + p.path, Store: *cur, Tree: *tree})
	}
	if p == nil {
		return
	}
	row := basePage{Path: p.path, Name: name, ID: p.ID, Created: uint64(tree.CreatedAt), Entry: t, Page: p.hash, Size: p.size, Bare: !p.block}
	if p.hasTime && p.CreatedAt != tree.CreatedAt {
		date := uint64(p.CreatedAt)
		row.Date = &date
	}
	if conflict { // settled when the person has removed the copy: then the page counts
		row.Entry, row.Page = c, ""
	}
	plan.exchanged = append(plan.exchanged, row)
}

func hashOf(e *crmem.Entry) string {
	if e == nil {
		return absent
	}
	return entryHash(e)
}

func (pl *planner) keep(cur *crmem.Entry) {
	pl.fixed = append(pl.fixed, *cur)
	pl.plan.report.Kept++
}

// take selects the tree's side.
func (pl *planner) take(name string, cur *crmem.Entry, p *treePage, tree *crmem.Entry) {
	r := &pl.plan.report
	switch {
	case tree == nil:
		r.Removed = append(r.Removed, name)
	case cur == nil:
		r.Added = append(r.Added, name)
	default:
		r.Changed = append(r.Changed, name)
	}
	switch {
	case tree == nil:
	case cur != nil && cur.Kind == tree.Kind:
		tree.ID = cur.ID
		pl.fixed = append(pl.fixed, *tree)
	default:
		pl.fresh = append(pl.fresh, tree)
		pl.asked = append(pl.asked, p.hasID)
	}
}

// number assigns ids to new entries. An entry gets the id of its page if the
// store is empty or has not yet assigned that id, so that no id is reused. If
// several pages have the same id, as copies of a page do, the page that was
// dumped with the id gets it.
func (pl *planner) number(cur *crmem.Snapshot) error {
	next := max(cur.NextID, 1)
	if cur.Len() == 0 {
		next = max(next, pl.tree.state.nextID())
	}
	taken := map[uint64]string{}
	numbered := make([]bool, len(pl.fresh))
	for _, dumped := range []bool{true, false} {
		for i, e := range pl.fresh {
			known := pl.base[e.Name]
			if !pl.asked[i] || numbered[i] || dumped && (known == nil || known.ID != e.ID) {
				continue
			}
			if cur.Len() > 0 && e.ID < cur.NextID || e.ID == math.MaxUint64 {
				continue
			}
			if other, ok := taken[e.ID]; ok {
				pl.plan.report.Warnings = append(pl.plan.report.Warnings,
					fmt.Sprintf("%s has the ID of %s, %d: load assigns a new ID", quoted(e.Name), quoted(other), e.ID))
				continue
			}
			taken[e.ID] = e.Name
			numbered[i] = true
		}
	}
	for id := range taken {
		next = max(next, id+1)
	}
	entries := pl.fixed
	for i, e := range pl.fresh {
		if !numbered[i] {
			if next == math.MaxUint64 {
				return errors.New("no ID left: next_id is the largest possible ID")
			}
			e.ID = next
			next++
		}
		entries = append(entries, *e)
	}
	sn, err := crmem.NewSnapshot(next, entries)
	pl.plan.snapshot = sn
	return err
}
