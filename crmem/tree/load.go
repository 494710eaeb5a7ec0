package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// LoadOptions chooses how a tree is taken in. The zero value replaces: after
// the load the store holds the tree's entries and no others.
type LoadOptions struct {
	// Merge takes over what changed in the tree since it was dumped and keeps
	// what changed in the store. An entry that both changed stays as the store
	// has it, beside a file under conflicts/ of the tree.
	Merge bool
	// Guard refuses, with a *[ChangedError], to replace what changed in the
	// store since the tree was dumped. A tree without a manifest and a store
	// without entries have nothing to guard.
	Guard bool
	// DryRun reports and changes nothing.
	DryRun bool
	// Confirm is called with what is about to happen, before anything does. Its
	// error ends the load. Nobody waits meanwhile: when the store changes so that
	// something else would happen, Confirm is called again, and after some times
	// the load ends with [ErrStale].
	Confirm func(LoadReport) error
	// Progress is called as pages are read, with done rising to total.
	Progress func(done, total int)
}

// LoadReport says what a load did, or would do. Names are in the order of the
// pages, those of removed entries in the order of ids.
type LoadReport struct {
	Dir       string
	Dumped    bool // the tree has a manifest: a dump wrote it
	Pages     int
	Added     []string
	Changed   []string
	Removed   []string
	Kept      int // entries that stay as they are
	Conflicts []Conflict
	Warnings  []string
}

// Conflict is an entry that store and tree changed in different ways.
type Conflict struct {
	Name  string
	Page  string      // the tree's text
	File  string      // where the store's text was put, in the tree
	Store crmem.Entry // as it stays in the store
	Tree  crmem.Entry
}

// ChangedError names the entries that a load would have lost. It is
// ErrChanged.
type ChangedError struct {
	Dir   string
	Names []string // added, changed or removed in the store since the dump
}

func (e *ChangedError) Error() string {
	names := make([]string, len(e.Names))
	for i, n := range e.Names {
		names[i] = quoted(n)
	}
	return fmt.Sprintf("%s: the store has changed since this tree was dumped: %s: load --merge keeps both, load --replace takes the tree alone", e.Dir, someOf(names))
}

// Is makes a ChangedError an ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }

// tree is a Markdown tree that was read and found valid.
type loadedTree struct {
	dir      string
	warnings []string // what was read otherwise than it may be meant

	pages    []treePage // notes, then archives, each by file name
	manifest *manifest
	text     []byte // of the manifest
}

// treePage is a page in its tree. Entry has its name and kind.
type treePage struct {
	page
	path string
}

// The directory of the store's side of conflicts.
const conflictDir = "conflicts"

// readTree reads the tree in dir, whoever wrote it, and checks all of it:
// every page is a regular file of a bounded size, says something that an
// entry can hold, and has a name of its own. The pages together may hold
// maxBytes. It writes nothing, and no link leads it outside.
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
		return nil, &Error{Path: manifestFile, Msg: "a dump into this tree was interrupted", Remedy: "finish it with dump"}
	}
	if err := unsettled(root, conflictDir, 2); err != nil {
		return nil, err
	}
	if err := t.readPages(root, maxBytes, progress); err != nil {
		return nil, err
	}
	if len(t.pages) == 0 && (t.manifest == nil || len(t.manifest.Pages) > 0) {
		return nil, &Error{Path: dir, Msg: "no pages in notes/ or archives/", Remedy: "name a directory that dump wrote; to empty a store, forget its entries"}
	}
	return t, nil
}

// rootError says why a directory cannot be opened as a tree.
func rootError(fsys vfs.FS, dir string, err error) error {
	const remedy = "name a directory that dump wrote, or one with notes/ or archives/ in it"
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{Path: dir, Msg: "no such directory", Remedy: remedy}
	}
	if fi, lerr := fsys.Lstat(dir); lerr == nil && !fi.IsDir() && fi.Mode()&fs.ModeSymlink == 0 {
		return &Error{Path: dir, Msg: "is " + fileType(fi.Mode()) + ", not a directory", Remedy: remedy}
	}
	return err
}

// unsettled refuses a tree with files under conflicts/.
func unsettled(root vfs.Tree, dir string, depth int) error {
	fi, err := root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !fi.IsDir() || depth == 0 {
		return &Error{Path: dir, Msg: "a conflict that is not settled", Remedy: "make the page of the same name what you want, remove this file, and load again"}
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
			return &Error{Path: f.path, Msg: fmt.Sprintf("the name %s is that of %s too", quoted(p.Name), other), Remedy: "rename one page, or change its Name row"}
		}
		paths[p.Name] = f.path
		for _, w := range p.warnings {
			t.warnings = append(t.warnings, f.path+": "+w)
		}
		t.pages = append(t.pages, treePage{*p, f.path})
	}
	return nil
}

// wanted reports whether a file is a page. What may be meant as one and is not
// is refused: entries would go missing.
func (t *loadedTree) wanted(f *treeFile) (bool, error) {
	switch {
	case f.hidden():
	case f.mode.IsDir():
		return false, &Error{Path: f.path, Msg: "is a directory", Remedy: "pages stand in " + path.Dir(f.path) + "/ itself: move what is in it there, or move it out of " + path.Dir(f.path) + "/"}
	case !f.isPage():
		t.warnings = append(t.warnings, f.path+": not a page, whose name ends in .md: left alone")
	case !f.mode.IsRegular():
		return false, &Error{Path: f.path, Msg: "is " + f.what(), Remedy: "put the page itself in its place, or remove it"}
	default:
		return true, nil
	}
	return false, nil
}

// readPage reads one page. What a dump wrote and nobody touched is not held to
// the limits of new entries: old stores hold more.
func readPage(root vfs.Tree, f *treeFile, known *manifestPage) (*page, error) {
	limit := int64(pageFits)
	if known != nil {
		limit = max(limit, known.Size)
	}
	b, err := vfs.ReadFile(root, f.path, limit)
	if large, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		return nil, &Error{Path: f.path, Msg: fmt.Sprintf("%d bytes, at most %d", large.Size, large.Max), Remedy: "split it"}
	}
	if errors.Is(err, vfs.ErrNotRegular) {
		return nil, &Error{Path: f.path, Msg: "is no regular file", Remedy: "put the page itself in its place, or remove it"}
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

// Load takes a Markdown tree into a store: see [LoadOptions]. The whole
// tree is read and checked first; then the store changes in one step or, on
// an error, not at all. Entries that keep their name and kind keep their id,
// and their time unless its date was edited. A tree without pages is an
// error: it never empties a store.
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
	var cur *crmem.Snapshot // that plan is for
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
			return report, fmt.Errorf("%s: not loaded: each time that it was confirmed, the store had changed: %w", dir, crmem.ErrStale)
		}
	}
	// The store has it. What follows is for the next load, and in this order:
	// were the conflict settled in the manifest before its file is there, that
	// load would take the tree's side unasked.
	err = t.writeBack(opts.FS, plan)
	if err != nil && len(plan.report.Conflicts) == 0 {
		report.Warnings = append(report.Warnings, fmt.Sprintf("%s: the tree could not be marked as loaded: %v", dir, err))
		err = nil
	}
	return report, err
}

// maxConfirm is how often a load is confirmed.
const maxConfirm = 10

// errOtherwise ends a replacement that would do what was not confirmed.
var errOtherwise = errors.New("the store has changed")

// sameChanges reports whether a load changes the same entries as another.
func (r *LoadReport) sameChanges(other *LoadReport) bool {
	return slices.Equal(r.Added, other.Added) && slices.Equal(r.Changed, other.Changed) && slices.Equal(r.Removed, other.Removed) &&
		slices.EqualFunc(r.Conflicts, other.Conflicts, func(a, b Conflict) bool { return a.Name == b.Name && a.Store.Equal(b.Store) })
}

// writeBack writes the files of conflicts, and into the manifest what was
// loaded.
func (t *loadedTree) writeBack(fsys vfs.FS, plan *loadPlan) error {
	if t.manifest == nil && len(plan.report.Conflicts) == 0 {
		return nil // a tree of somebody else, which nothing needs to be written to
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

// replaceFile replaces a file of a tree.
func replaceFile(t vfs.Tree, name string, b []byte) error {
	return vfs.Replace(t, name, 0o600, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}
