package tree

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// LoadOptions selects how Load changes the store. With the zero value the store
// contains exactly the tree's entries after the load.
type LoadOptions struct {
	// Merge applies the changes of the tree since the store's last exchange with
	// it, a dump or a load, and keeps the changes of the store. If both changed an
	// entry, the store keeps its text, and Load copies that text to conflicts/ in
	// the tree. Without such an exchange no entry is removed, and each entry that
	// differs is a conflict.
	Merge bool
	// Guard makes Load return a *[ChangedError] if the store changed since its last
	// exchange with the tree. It has no effect for a tree without a manifest or a
	// store without entries.
	Guard bool
	// DryRun reports the changes without making them.
	DryRun bool
	// Accept are paths of pages in the tree, such as notes/deploy.md, that Load takes as
	// they are, although they look damaged or like conflict copies.
	Accept []string
	// Bases is the directory of the merge bases, by default the path of the store
	// with [BasesSuffix].
	Bases string
	// Confirm is called with the planned changes before Load makes them. An
	// error ends the load. No lock is held during the call: if the store
	// changes so that the plan differs, Load calls Confirm again. After
	// maxConfirm calls Load returns [ErrStale].
	Confirm func(LoadReport) error
	// Progress is called after each page is read, with done rising to total.
	Progress func(done, total int)
}

// LoadReport lists the changes of a load, or of a dry run. Names are in the
// order of the pages; names of removed entries are in the order of ids.
type LoadReport struct {
	Dir       string     `json:"dir"`
	Dumped    bool       `json:"dumped"` // the tree has a manifest: a dump wrote it
	Pages     int        `json:"pages"`
	Added     []string   `json:"added"`
	Changed   []string   `json:"changed"`
	Removed   []string   `json:"removed"`
	Kept      int        `json:"kept"` // entries that do not change
	Conflicts []Conflict `json:"conflicts"`
	Warnings  []string   `json:"warnings"`
}

// Conflict is an entry that store and tree changed in different ways.
type Conflict struct {
	Name  string      `json:"name"`
	Page  string      `json:"page"` // the tree's text
	File  string      `json:"file"` // path in the tree of the copy of the store's text
	Store crmem.Entry `json:"-"`    // as it stays in the store
	Tree  crmem.Entry `json:"-"`
}

// ChangedError lists the entries that a load would overwrite. It is ErrChanged.
type ChangedError struct {
	Dir   string
	Names []string // added, changed or removed in the store since the last exchange
}

func (e *ChangedError) Error() string {
	names := make([]string, len(e.Names))
	for i, n := range e.Names {
		names[i] = quoted(n)
	}
	return fmt.Sprintf("%s: the store has changed since its last dump or load of this tree: %s: run crabmem load --merge to keep both changes, or crabmem load --replace to replace the store", e.Dir, someOf(names))
}

// Is makes a ChangedError an ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }

// loadedTree is a valid Markdown tree.
type loadedTree struct {
	dir      string
	warnings []string // unusual input and its interpretation

	pages []treePage // notes, then archives, each by file name
	state *treeState
	bases bases
}

// treePage is a page in its tree. Entry has its name and kind.
type treePage struct {
	page
	path string
	hash string // pageHash
	size int64
}

// The directory of the store's texts of conflicts.
const conflictDir = "conflicts"

// Load loads a Markdown tree into a store: see [LoadOptions]. It reads and
// checks the complete tree, then changes the store atomically. On an error it
// changes no entry. An entry that keeps its name and kind keeps its id, and its
// time unless its date was edited. A tree without pages is an error, so that it
// cannot empty a store.
func Load(s *crmem.Store, dir string, o *LoadOptions) (LoadReport, error) {
	if o == nil {
		o = &LoadOptions{}
	}
	opts := s.Options()
	report := LoadReport{Dir: dir}
	bases := bases{opts.FS, o.Bases, s.Identity()}
	if bases.dir == "" {
		bases.dir = basesOf(s)
	}
	t, err := readTree(bases, dir, s.Snapshot(), opts.MaxBytes, o)
	if err != nil {
		return report, err
	}
	var cur *crmem.Snapshot // state that plan is for
	var plan *loadPlan
	decide := func(now *crmem.Snapshot) error {
		if cur != nil && cur.Equal(now) {
			return nil
		}
		if plan, err = t.plan(now, o.Merge, opts.Now()); err != nil {
			return err
		}
		cur = now
		plan.report.Dir, plan.report.Dumped, plan.report.Pages = dir, t.state.dumped(), len(t.pages)
		plan.report.Warnings = append(slices.Clone(t.warnings), plan.report.Warnings...)
		report = plan.report
		if o.Guard && !o.Merge && len(plan.lost) > 0 {
			return &ChangedError{dir, plan.lost}
		}
		return nil
	}
	if !o.DryRun {
		if err := s.Writable(); err != nil {
			return report, err
		}
	}
	for try := 1; ; try++ {
		if err := decide(s.Snapshot()); err != nil {
			return report, err
		}
		if o.Confirm != nil {
			if err := o.Confirm(report); err != nil {
				return report, err
			}
		}
		if o.DryRun {
			return report, nil
		}
		confirmed := report
		err := s.Update(func(now *crmem.Snapshot) (*crmem.Snapshot, error) {
			if err := decide(now); err != nil {
				return nil, err
			}
			if o.Confirm != nil && !report.sameChanges(&confirmed) {
				return nil, errOtherwise
			}
			if !plan.differs(now) {
				return nil, nil
			}
			return plan.snapshot, nil
		})
		if err == nil {
			break
		}
		if err != errOtherwise {
			return report, err
		}
		if try == maxConfirm {
			return report, fmt.Errorf("load %s: nothing was loaded: the store changed during each confirmation: %w", dir, crmem.ErrStale)
		}
	}
	// The store has the changes. Write the conflict files before the base: if the
	// base recorded a conflict as settled and the file were missing, the next load
	// would silently take the tree's side.
	if err := t.writeConflicts(plan.report.Conflicts); err != nil {
		return report, err
	}
	t.bases.store = s.Identity()
	if err := t.saveBase(plan); err != nil {
		report.Warnings = append(report.Warnings, unsaved(err, dir))
	}
	return report, nil
}

// maxConfirm limits the calls of Confirm.
const maxConfirm = 10

// errOtherwise ends a replacement that would differ from the confirmed plan.
var errOtherwise = errors.New("the store has changed")

// sameChanges reports whether a load changes the same entries as another.
func (r *LoadReport) sameChanges(other *LoadReport) bool {
	return slices.Equal(r.Added, other.Added) && slices.Equal(r.Changed, other.Changed) && slices.Equal(r.Removed, other.Removed) &&
		slices.EqualFunc(r.Conflicts, other.Conflicts, func(a, b Conflict) bool { return a.Name == b.Name && a.Store.Equal(b.Store) })
}

// writeConflicts writes the store's texts of conflicts.
func (t *loadedTree) writeConflicts(conflicts []Conflict) error {
	if len(conflicts) == 0 {
		return nil
	}
	root, err := t.bases.fsys.Root(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range conflicts {
		if err := vfs.MkdirAll(root, path.Dir(c.File), 0o700); err != nil {
			return err
		}
		stem := strings.TrimSuffix(path.Base(c.File), pageExt)
		if err := replaceFile(root, c.File, appendPage(nil, &c.Store, stem)); err != nil {
			return err
		}
	}
	return nil
}

// saveBase saves what store and tree exchanged. It gives an identity to a tree with
// conflicts that no dump wrote.
func (t *loadedTree) saveBase(plan *loadPlan) error {
	if t.bases.dir == "" || t.state.id == "" && len(plan.report.Conflicts) == 0 {
		return nil
	}
	b := &base{Tree: t.state.id, NextID: plan.snapshot.NextID, Pages: plan.exchanged}
	b.Dumps = t.state.past(plan.base.Dumps)
	if t.state.id != "" {
		return t.bases.save(b, plan.base)
	}
	root, err := t.bases.fsys.Root(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	b.Tree = newID()
	if err := t.bases.save(b, &base{}); err != nil {
		return err
	}
	return writeManifest(root, b.Tree, "")
}
