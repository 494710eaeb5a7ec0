package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// DumpOptions adjusts a dump. The zero value refuses to overwrite edited pages.
type DumpOptions struct {
	// Force moves pages that were edited since the last dump, and files that
	// dump did not write, into a new directory aside-N of the tree. Without
	// Force the dump returns an *[EditedError].
	Force bool
	// DryRun reports the changes without making them.
	DryRun bool
	// Bases is the directory of the merge bases of the store. Dump sets it to the
	// path of the store with [BasesSuffix]. Without it the store counts as another
	// one at each exchange with the tree.
	Bases string
	// Format is the form of the pages, unless it is nil.
	Format *Format
	// Progress is called after each step, with done rising to total.
	Progress func(done, total int)
}

// DumpReport lists the changes of a dump, or of a dry run.
type DumpReport struct {
	Dir       string   `json:"dir"`
	Entries   int      `json:"entries"`
	Unchanged int      `json:"unchanged"` // pages that did not differ
	Written   []string `json:"written"`   // pages, by ascending id
	Deleted   []string `json:"deleted"`   // pages of removed entries
	Aside     []string `json:"aside"`     // directories that Force moved files to
	Seeded    bool     `json:"seeded"`    // book.toml was created
	Warnings  []string `json:"warnings"`
}

// EditedError lists the files that a dump would overwrite. It is ErrEdited.
type EditedError struct {
	Dir     string
	Edited  []string // pages that the store exchanged with the tree, changed since
	Foreign []string // files that the store neither dumped nor loaded
	format  string
}

func (e *EditedError) Error() string {
	var b strings.Builder
	b.WriteString(e.Dir)
	if len(e.Edited) > 0 {
		fmt.Fprintf(&b, ": edited since the last dump or load: %s", someOf(e.Edited))
	}
	if len(e.Foreign) > 0 {
		fmt.Fprintf(&b, ": neither dumped nor loaded by this store: %s", someOf(e.Foreign))
	}
	b.WriteString(": nothing was changed; " + editedAdvice(e.format))
	return b.String()
}

// Is makes an EditedError an ErrEdited.
func (e *EditedError) Is(target error) bool { return target == ErrEdited }

func someOf(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Dump writes a store into the directory dir as a Markdown tree, which [Load] reads back
// exactly. It creates dir if it is missing.
//
// It renders and checks all pages before it writes a file. It replaces only
// pages that differ, each atomically, and then deletes the pages of removed
// entries. The tree has a record with the state "unfinished" before the first of
// these changes and "done" after the last. After a crash every page is complete,
// load refuses the tree, and another dump completes it.
//
// Dump changes only pages that the store exchanged with this tree: that
// it dumped, or loaded. It returns an *[EditedError] if such a page was edited
// since, or if notes/ or archives/ contains another file. A page with the same text
// as the store counts as unedited.
func Dump(s *crmem.Store, dir string, o *DumpOptions) (DumpReport, error) {
	var opts DumpOptions
	if o != nil {
		opts = *o
	}
	if opts.Bases == "" {
		opts.Bases = basesOf(s)
	}
	return dump(bases{s.Options().FS, opts.Bases, s.Identity()}, dir, s.Snapshot(), &opts)
}

// basesOf returns the directory of the bases of a store, or "" for a store in
// memory.
func basesOf(s *crmem.Store) string {
	if s.Path() == "" {
		return ""
	}
	return s.Path() + BasesSuffix
}

func dump(bases bases, dir string, sn *crmem.Snapshot, o *DumpOptions) (DumpReport, error) {
	d := &dumper{dir: dir, opts: *o, bases: bases, snapshot: sn, next: base{NextID: sn.NextID}, present: map[string]string{}}
	d.report.Dir, d.report.Entries = dir, sn.Len()
	for e := range sn.All() {
		d.entries = append(d.entries, e)
	}
	var count [len(kindDirs)]int
	for i := range d.entries {
		if k := d.entries[i].Kind; count[k] == maxFiles {
			return d.report, &Error{Path: kindDirs[k], Msg: fmt.Sprintf("more than %d pages", maxFiles), Remedy: tooManyRemedy}
		}
		count[d.entries[i].Kind]++
	}
	d.paths = pagePaths(d.entries, o.Format)
	if o.Format != nil {
		stems := make([]string, len(d.paths))
		for i, p := range d.paths {
			stems[i] = stemOf(p)
		}
		o.Format.Begin(d.entries, stems)
	}
	err := d.run(bases.fsys)
	return d.report, err
}

// dumper is one dump.
type dumper struct {
	dir      string
	opts     DumpOptions
	bases    bases
	snapshot *crmem.Snapshot
	report   DumpReport
	entries  []crmem.Entry
	paths    []string
	root     vfs.RootDir // nil while the directory is missing

	state  *treeState
	old    *base
	known  basePages // of old
	next   base      // to save
	record dumpRecord
	files  map[string]*treeFile
	listed []treeFile

	write   []int             // positions of pages to write
	remove  []string          // pages to delete
	present map[string]string // pageHash of pages to replace or delete
	sweep   []string          // temporary files and records of interrupted dumps
	refused EditedError
	folded  map[string]bool // foldKey of all planned pages
	seed    []string        // files to create
	summary []byte          // nil if unchanged
	steps   int             // for Progress
}

func (d *dumper) run(fsys vfs.FS) error {
	var err error
	d.state, d.old = &treeState{}, &base{}
	d.root, err = fsys.Root(d.dir)
	switch {
	case err == nil:
		defer func() { d.root.Close() }()
		if err := d.inspect(); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return rootError(fsys, d.dir, err)
	}
	if err := d.plan(); err != nil {
		return err
	}
	moves := append(append([]string{}, d.refused.Edited...), d.refused.Foreign...)
	if len(moves) > 0 && !d.opts.Force {
		d.refused.Dir, d.refused.format = d.dir, d.opts.formName()
		return &d.refused
	}
	if d.opts.DryRun {
		d.report.Aside = moves
		return nil
	}
	busy := len(moves)+len(d.write)+len(d.remove)+len(d.sweep)+len(d.seed) > 0 || d.summary != nil ||
		d.state.id == "" || d.state.unfinished() != ""
	if !busy {
		d.next.Tree, d.next.Dumps = d.state.id, d.state.past(d.old.Dumps)
		return d.save(&d.next, d.old)
	}
	if d.root == nil {
		if err := vfs.MkdirAll(fsys, d.dir, 0o700); err != nil {
			return err
		}
		if d.root, err = fsys.Root(d.dir); err != nil {
			return err
		}
		defer func() { d.root.Close() }()
	}
	return d.apply(moves)
}

// save saves the base. If the store's directory is read-only, it adds a warning
// and keeps no base.
func (d *dumper) save(b, old *base) error {
	err := d.bases.save(b, old)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		d.report.Warnings = append(d.report.Warnings, unsaved(err, d.dir))
		d.bases.dir = ""
		return nil
	}
	return err
}

// unsaved is the warning that the base of a tree could not be saved.
func unsaved(err error, dir string) string {
	return fmt.Sprintf("%v: the next dump or merge treats %s as the tree of another store", err, dir)
}

// inspect reads the present tree.
func (d *dumper) inspect() error {
	var err error
	if d.state, err = readState(d.root); err != nil {
		return err
	}
	if err := d.begin(); err != nil {
		return err
	}
	var warning string
	if d.old, warning, err = d.bases.read(d.state.id, d.snapshot); err != nil {
		return err
	}
	if warning != "" {
		d.report.Warnings = append(d.report.Warnings, warning)
	}
	d.known = d.old.byPath()
	if d.listed, err = listPages(d.root); err != nil {
		return err
	}
	if err := respell(d.root, d.listed, d.paths); err != nil {
		return err
	}
	d.files = make(map[string]*treeFile, len(d.listed))
	for i := range d.listed {
		d.files[d.listed[i].path] = &d.listed[i]
	}
	return nil
}

func (d *dumper) step(total int) {
	d.steps++
	if d.opts.Progress != nil {
		d.opts.Progress(min(d.steps, total), total)
	}
}
