package memtool

import (
	"crabmem/crmem"
	"crabmem/crmem/tree"
)

// DumpAnswer is what crabmem dump --json prints.
type DumpAnswer struct {
	Dir       string   `json:"dir"`
	Entries   int      `json:"entries"`
	Unchanged int      `json:"unchanged"`
	Written   []string `json:"written"`
	Deleted   []string `json:"deleted"`
	Aside     []string `json:"aside"`
	Seeded    bool     `json:"seeded"`
	Warnings  []string `json:"warnings"`
	DryRun    bool     `json:"dry_run"`
}

// Dumped makes the answer of a report.
func Dumped(r tree.DumpReport, dry bool) DumpAnswer {
	return DumpAnswer{r.Dir, r.Entries, r.Unchanged, some(r.Written), some(r.Deleted), some(r.Aside), r.Seeded, some(r.Warnings), dry}
}

// Report returns the report of an answer.
func (a *DumpAnswer) Report() tree.DumpReport {
	return tree.DumpReport{Dir: a.Dir, Entries: a.Entries, Unchanged: a.Unchanged, Written: a.Written, Deleted: a.Deleted, Aside: a.Aside, Seeded: a.Seeded, Warnings: a.Warnings}
}

// LoadAnswer is what crabmem load --json prints, and the details of its
// conflicts.
type LoadAnswer struct {
	Dir       string         `json:"dir"`
	Dumped    bool           `json:"dumped"` // a dump wrote the tree
	Pages     int            `json:"pages"`
	Added     []string       `json:"added"`
	Changed   []string       `json:"changed"`
	Removed   []string       `json:"removed"`
	Kept      int            `json:"kept"`
	Conflicts []LoadConflict `json:"conflicts"`
	Warnings  []string       `json:"warnings"`
	DryRun    bool           `json:"dry_run"`
}

// LoadConflict is an entry that tree and store changed in different ways.
type LoadConflict struct {
	Name string `json:"name"`
	Page string `json:"page"` // the tree's text
	File string `json:"file"` // the store's text
}

// Loaded makes the answer of a report.
func Loaded(r tree.LoadReport, dry bool) LoadAnswer {
	a := LoadAnswer{r.Dir, r.Dumped, r.Pages, some(r.Added), some(r.Changed), some(r.Removed), r.Kept, []LoadConflict{}, some(r.Warnings), dry}
	for _, k := range r.Conflicts {
		a.Conflicts = append(a.Conflicts, LoadConflict{k.Name, k.Page, k.File})
	}
	return a
}

// Report is the report that an answer was made of, without the texts of its
// conflicts.
func (a *LoadAnswer) Report() tree.LoadReport {
	r := tree.LoadReport{Dir: a.Dir, Dumped: a.Dumped, Pages: a.Pages, Added: a.Added, Changed: a.Changed, Removed: a.Removed,
		Kept: a.Kept, Warnings: a.Warnings}
	for _, k := range a.Conflicts {
		r.Conflicts = append(r.Conflicts, tree.Conflict{Name: k.Name, Page: k.Page, File: k.File})
	}
	return r
}

// StatsAnswer is what crabmem stats --json prints of the store.
type StatsAnswer struct {
	Path string `json:"path"`
	crmem.Stats
	Index *IndexAnswer `json:"index,omitempty"`
}

// IndexAnswer is the size of the search index, and what building it took.
type IndexAnswer struct {
	Bytes    int64   `json:"bytes"`
	Terms    int     `json:"terms"`
	Postings int     `json:"postings"`
	Seconds  float64 `json:"build_seconds"`
}

// some is a list that JSON writes as an array.
func some(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// TreeDetails are the details of errors that are about a tree of pages.
type TreeDetails struct {
	Path    string   `json:"path"` // in the tree, or the tree's own
	Line    int      `json:"line"` // from 1; 0 = the whole file
	Message string   `json:"message"`
	Names   []string `json:"names,omitempty"` // entries that a load would have lost
}
