package op

import (
	"context"
	"slices"
	"strings"

	"crabmem/crmem/tree"
	"crabmem/daemon/errtable"
)

// TreeLoad is a request to read a Markdown tree, as [tree.Load] does. A daemon has another
// working directory, so its clients send an absolute path.
type TreeLoad struct {
	Dir    string   `json:"dir"`
	Guard  bool     `json:"guard,omitempty"`
	Merge  bool     `json:"merge,omitempty"`
	DryRun bool     `json:"dry_run,omitempty"`
	Accept []string `json:"accept,omitempty"`
}

// LoadPart is a part of the response to [LoadTree]: progress; the names of entries that
// the load will remove, before it does; or last the report.
type LoadPart struct {
	Progress
	Removes []string    `json:"removes,omitempty"`
	Report  *LoadAnswer `json:"report,omitempty"`
}

var LoadTree = AddSeq(errtable.Store, Seq[Store, TreeLoad, LoadPart]{
	Name: "tree.load", Does: "Read a Markdown tree into the store.", Effect: Writes,
	Run: func(ctx context.Context, s Store, in *TreeLoad, send func(LoadPart) error) error {
		o := &tree.LoadOptions{Guard: in.Guard, Merge: in.Merge, DryRun: in.DryRun, Accept: in.Accept,
			Progress: reporter(func(p Progress) error { return send(LoadPart{Progress: p}) })}
		reported := make(map[string]bool)
		o.Confirm = func(report tree.LoadReport) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			// The list grows if the store changes concurrently.
			more := slices.DeleteFunc(slices.Clone(report.Removed), func(name string) bool { return reported[name] })
			for _, name := range more {
				reported[name] = true
			}
			return send(LoadPart{Removes: more})
		}
		report, err := tree.Load(s.Store, in.Dir, o)
		if err != nil {
			return err
		}
		a := Loaded(report, in.DryRun)
		return send(LoadPart{Report: &a})
	},
})

// InDir replaces the absolute path of the tree's directory in texts.
func (p *LoadPart) InDir(abs, dir string) {
	if p.Report == nil {
		return
	}
	p.Report.Dir = dir
	for i, text := range p.Report.Warnings {
		p.Report.Warnings[i] = strings.ReplaceAll(text, abs, dir)
	}
}

// DumpAnswer is what crabmem dump --json prints.
type DumpAnswer struct {
	tree.DumpReport
	DryRun bool `json:"dry_run"`
}

// Dumped makes the answer of a report.
func Dumped(r tree.DumpReport, dry bool) DumpAnswer {
	r.Written, r.Deleted, r.Aside, r.Warnings = some(r.Written), some(r.Deleted), some(r.Aside), some(r.Warnings)
	return DumpAnswer{r, dry}
}

// LoadAnswer is what crabmem load --json prints, and the details of its
// conflicts.
type LoadAnswer struct {
	tree.LoadReport
	DryRun bool `json:"dry_run"`
}

// Loaded makes the answer of a report.
func Loaded(r tree.LoadReport, dry bool) LoadAnswer {
	r.Added, r.Changed, r.Removed = some(r.Added), some(r.Changed), some(r.Removed)
	r.Conflicts, r.Warnings = some(r.Conflicts), some(r.Warnings)
	return LoadAnswer{r, dry}
}

// TreeDetails are the details of errors that are about a tree of pages.
type TreeDetails struct {
	Path    string   `json:"path"` // in the tree, or the tree's own
	Line    int      `json:"line"` // from 1; 0 = the whole file
	Message string   `json:"message"`
	Names   []string `json:"names,omitempty"` // entries that a load would have lost
}
