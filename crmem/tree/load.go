package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// LoadOptions selects how Load changes the store. With the zero value the store
// contains exactly the tree's entries after the load.
type LoadOptions struct {
	// Merge applies the changes of the tree since its dump and keeps the
	// changes of the store. If both changed an entry, the store keeps its text,
	// and Load copies that text to conflicts/ in the tree.
	Merge bool
	// Guard makes Load return a *[ChangedError] if the store changed since the
	// dump. It has no effect for a tree without a manifest or a store without
	// entries.
	Guard bool
	// DryRun reports the changes without making them.
	DryRun bool
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
	Dir       string
	Dumped    bool // the tree has a manifest: a dump wrote it
	Pages     int
	Added     []string
	Changed   []string
	Removed   []string
	Kept      int // entries that do not change
	Conflicts []Conflict
	Warnings  []string
}

// Conflict is an entry that store and tree changed in different ways.
type Conflict struct {
	Name  string
	Page  string      // the tree's text
	File  string      // path in the tree of the copy of the store's text
	Store crmem.Entry // as it stays in the store
	Tree  crmem.Entry
}

// ChangedError lists the entries that a load would overwrite. It is ErrChanged.
type ChangedError struct {
	Dir   string
	Names []string // added, changed or removed in the store since the dump
}

func (e *ChangedError) Error() string {
	names := make([]string, len(e.Names))
	for i, n := range e.Names {
		names[i] = quoted(n)
	}
	return fmt.Sprintf("%s: the store has changed since the dump of this tree: %s: run crabmem load --merge to keep both changes, or crabmem load --replace to replace the store", e.Dir, someOf(names))
}

// Is makes a ChangedError an ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }

// loadedTree is a valid Markdown tree.
type loadedTree struct {
	dir      string
	warnings []string // unusual input and its interpretation

	pages    []treePage // notes, then archives, each by file name
	manifest *manifest
	text     []byte // of the manifest
}

// treePage is a page in its tree. Entry has its name and kind.
type treePage struct {
	page
	path string
}

// The directory of the store's texts of conflicts.
const conflictDir = "conflicts"

// readTree reads and checks the tree in dir, regardless of the program that
// wrote it. Every page must be a regular file of a bounded size, a valid entry,
// and have a unique name. All pages together may have at most maxBytes.
// readTree writes no file and follows no link out of dir.
func readTree(fsys vfs.FS, dir string, maxBytes int64, progress func(done, total int)) (*loadedTree, error) {
	root, err := fsys.Root(dir)
	if err != nil {
		return nil, rootError(fsys, dir, err)
	}
	defer root.Close()
	t := &loadedTree{dir: dir}
	if t.manifest, t.text, err = readManifest(root); err != nil {
		return nil, err
	}
	if t.manifest != nil && t.manifest.State == stateUnfinished {
		return nil, &Error{Path: manifestFile, Msg: "the last dump of this tree was interrupted", Remedy: "run crabmem dump to complete it"}
	}
	if err := unsettled(root, conflictDir, 2); err != nil {
		return nil, err
	}
	if err := t.readPages(root, maxBytes, progress); err != nil {
		return nil, err
	}
	if len(t.pages) == 0 && (t.manifest == nil || len(t.manifest.Pages) > 0) {
		return nil, &Error{Path: dir, Msg: "no pages in notes/ or archives/", Remedy: "use a directory that crabmem dump wrote; to empty a store, run crabmem forget for each entry"}
	}
	return t, nil
}

// rootError explains why a directory cannot be opened as a tree.
func rootError(fsys vfs.FS, dir string, err error) error {
	const remedy = "use a directory that crabmem dump wrote, or that contains notes/ or archives/"
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{Path: dir, Msg: "no such directory", Remedy: remedy}
	}
	if fi, lerr := fsys.Lstat(dir); lerr == nil && !fi.IsDir() && fi.Mode()&fs.ModeSymlink == 0 {
		return &Error{Path: dir, Msg: "is " + fileType(fi.Mode()) + ", not a directory", Remedy: remedy}
	}
	return err
}

// unsettled returns an error if conflicts/ contains a file.
func unsettled(root vfs.Tree, dir string, depth int) error {
	fi, err := root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !fi.IsDir() || depth == 0 {
		return &Error{Path: dir, Msg: "unresolved conflict", Remedy: "edit the page of the same name to resolve the conflict, remove this file, and load again"}
	}
	list, err := root.ReadDir(dir)
	for _, d := range list {
		if err == nil && !strings.HasPrefix(d.Name(), ".") {
			err = unsettled(root, dir+"/"+d.Name(), depth-1)
		}
	}
	return err
}

func (t *loadedTree) readPages(root vfs.Tree, maxBytes int64, progress func(done, total int)) error {
	files, err := listPages(root)
	if err != nil {
		return err
	}
	known := t.manifest.byPath()
	paths := make(map[string]string, len(files)) // by name
	var total int64
	for i := range files {
		if progress != nil {
			progress(i+1, len(files))
		}
		f := &files[i]
		read, err := t.wanted(f)
		if err != nil {
			return err
		}
		if !read {
			continue
		}
		if total += f.size; total > maxBytes {
			return &Error{Path: f.path, Msg: fmt.Sprintf("with this page the tree has more than %d bytes", maxBytes), Remedy: "load it in parts, or raise the store's limit"}
		}
		p, err := readPage(root, f, known[f.path])
		if err != nil {
			return err
		}
		if other, ok := paths[p.Name]; ok {
			return &Error{Path: f.path, Msg: fmt.Sprintf("the name %s is also the name of %s", quoted(p.Name), other), Remedy: "rename one page, or change its Name row"}
		}
		paths[p.Name] = f.path
		for _, w := range p.warnings {
			t.warnings = append(t.warnings, f.path+": "+w)
		}
		t.pages = append(t.pages, treePage{*p, f.path})
	}
	return nil
}

// wanted reports whether a file is a page. It returns an error for a file that
// a person may take for a page but load does not: skipping it would remove an
// entry.
func (t *loadedTree) wanted(f *treeFile) (bool, error) {
	switch {
	case f.hidden():
	case f.mode.IsDir():
		return false, &Error{Path: f.path, Msg: "is a directory", Remedy: "pages must be directly in " + path.Dir(f.path) + "/: move the files there, or move the directory out of " + path.Dir(f.path) + "/"}
	case !f.isPage():
		t.warnings = append(t.warnings, f.path+": ignored: not a page: its name does not end in .md")
	case !f.mode.IsRegular():
		return false, &Error{Path: f.path, Msg: "is " + f.what(), Remedy: "replace it with a regular file, or remove it"}
	default:
		return true, nil
	}
	return false, nil
}

// readPage reads one page. The limits of new entries do not apply to an
// unedited page of a dump, because older stores may exceed them.
func readPage(root vfs.Tree, f *treeFile, known *manifestPage) (*page, error) {
	limit := int64(pageFits)
	if known != nil {
		limit = max(limit, known.Size)
	}
	b, err := vfs.ReadFile(root, f.path, limit)
	if large, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		return nil, &Error{Path: f.path, Msg: fmt.Sprintf("%d bytes, at most %d", large.Size, large.Max), Remedy: "split the page"}
	}
	if errors.Is(err, vfs.ErrNotRegular) {
		return nil, &Error{Path: f.path, Msg: "is not a regular file", Remedy: "replace it with a regular file, or remove it"}
	}
	if err != nil {
		return nil, err
	}
	p, err := parsePage(b)
	if err != nil {
		e := &Error{Path: f.path, Msg: err.Error()}
		if pe, ok := errors.AsType[*pageError](err); ok {
			e.Line, e.Remedy = lineAt(b, pe.offset), pe.remedy
		}
		return nil, e
	}
	p.Kind = f.kind
	if !p.named {
		p.Name = f.stem()
		if !utf8.ValidString(p.Name) {
			return nil, &Error{Path: f.path, Msg: "the file name is not UTF-8", Remedy: "rename it"}
		}
	}
	if known == nil || known.Page != pageHash(b) {
		if err := (crmem.Add{Name: p.Name, Content: p.Content, Aliases: p.Aliases, Kind: p.Kind}).Validate(); err != nil {
			return nil, &Error{Path: f.path, Msg: err.Error(), Remedy: "shorten or correct it"}
		}
	}
	return p, nil
}

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
	t, err := readTree(opts.FS, dir, opts.MaxBytes, o.Progress)
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
		plan.report.Dir, plan.report.Dumped, plan.report.Pages = dir, t.manifest != nil, len(t.pages)
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
	// The store has the changes. Write the conflict files before the manifest:
	// if the manifest recorded a conflict as settled and the file were missing,
	// the next load would silently take the tree's side.
	err = t.writeBack(opts.FS, plan)
	if err != nil && len(plan.report.Conflicts) == 0 {
		report.Warnings = append(report.Warnings, fmt.Sprintf("%s: the tree could not be marked as loaded: %v", dir, err))
		err = nil
	}
	return report, err
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

// writeBack writes the conflict files, then records the loaded entries in the
// manifest.
func (t *loadedTree) writeBack(fsys vfs.FS, plan *loadPlan) error {
	if t.manifest == nil && len(plan.report.Conflicts) == 0 {
		return nil // without a manifest there is no state to record
	}
	m := manifest{State: stateDone}
	if t.manifest != nil {
		m = *t.manifest
	}
	m.Loaded = plan.loaded
	text, err := m.encode()
	if err != nil || slices.Equal(text, t.text) && len(plan.report.Conflicts) == 0 {
		return err
	}
	root, err := fsys.Root(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range plan.report.Conflicts {
		if err := vfs.MkdirAll(root, path.Dir(c.File), 0o700); err != nil {
			return err
		}
		stem := strings.TrimSuffix(path.Base(c.File), pageExt)
		if err := replaceFile(root, c.File, appendPage(nil, &c.Store, stem)); err != nil {
			return err
		}
	}
	return replaceFile(root, manifestFile, text)
}
