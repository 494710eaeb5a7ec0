package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

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
	// Progress is called after each step, with done rising to total.
	Progress func(done, total int)
}

// DumpReport lists the changes of a dump, or of a dry run.
type DumpReport struct {
	Dir       string
	Entries   int
	Unchanged int      // pages that did not differ
	Written   []string // pages, by ascending id
	Deleted   []string // pages of removed entries
	Aside     []string // directories that Force moved files to
	Seeded    bool     // book.toml was created
}

// EditedError lists the files that a dump would overwrite. It is ErrEdited.
type EditedError struct {
	Dir     string
	Edited  []string // pages of an earlier dump, changed since
	Foreign []string // files that dump did not write
}

func (e *EditedError) Error() string {
	var b strings.Builder
	b.WriteString(e.Dir)
	if len(e.Edited) > 0 {
		fmt.Fprintf(&b, ": edited since the last dump: %s", someOf(e.Edited))
	}
	if len(e.Foreign) > 0 {
		fmt.Fprintf(&b, ": not written by a dump: %s", someOf(e.Foreign))
	}
	b.WriteString(": nothing was changed; run crabmem load --merge to load the pages, move the other files, or run crabmem dump --force to move both aside")
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

// Dump writes a store as a Markdown tree, which [Load] reads back exactly. See
// [DumpSnapshot].
func Dump(s *crmem.Store, dir string, o *DumpOptions) (DumpReport, error) {
	return DumpSnapshot(s.Options().FS, dir, s.Snapshot(), o)
}

// DumpSnapshot writes a snapshot into the directory dir, which it creates if it
// is missing.
//
// It renders and checks all pages before it writes a file. It replaces only
// pages that differ, each atomically, and then deletes the pages of removed
// entries. The manifest's state is "unfinished" before the first of these
// changes and "done" after the last. After a crash every page is complete, load
// refuses the tree, and another dump completes it.
//
// DumpSnapshot changes only files that a dump wrote. It returns an
// *[EditedError] if a page was edited since, or if notes/ or archives/ contains
// another file. A page whose edits the snapshot contains counts as unedited.
func DumpSnapshot(fsys vfs.FS, dir string, sn *crmem.Snapshot, o *DumpOptions) (DumpReport, error) {
	d := &dumper{dir: dir}
	if o != nil {
		d.opts = *o
	}
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
	d.paths = pagePaths(d.entries)
	d.next.NextID = sn.NextID
	err := d.run(fsys)
	return d.report, err
}

// dumper is one dump.
type dumper struct {
	dir     string
	opts    DumpOptions
	report  DumpReport
	entries []crmem.Entry
	paths   []string
	root    vfs.RootDir // nil while the directory is missing

	old     *manifest
	known   map[string]*manifestPage // of old, by path
	oldText []byte                   // of old
	next    manifest                 // manifest to write; the Old fields are for state unfinished
	files   map[string]*treeFile
	listed  []treeFile

	write   []int          // positions of pages to write
	remove  []manifestPage // pages to delete
	sweep   []string       // temporary files of an interrupted dump
	refused EditedError
	summary []byte // nil if unchanged
	steps   int    // for Progress
}

func (d *dumper) run(fsys vfs.FS) error {
	var err error
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
		d.refused.Dir = d.dir
		return &d.refused
	}
	if d.opts.DryRun {
		d.report.Aside = moves
		return nil
	}
	done := d.next
	done.State = stateDone
	done.Pages = make([]manifestPage, len(d.next.Pages))
	for i, p := range d.next.Pages {
		p.Old = ""
		done.Pages[i] = p
	}
	done.OldSummary = ""
	doneText, err := done.encode()
	if err != nil {
		return err
	}
	busy := len(moves)+len(d.write)+len(d.remove)+len(d.sweep) > 0 || d.summary != nil || d.report.Seeded
	if !busy && bytes.Equal(doneText, d.oldText) {
		return nil
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
	if busy {
		if err := d.apply(moves); err != nil {
			return err
		}
	}
	return replaceFile(d.root, manifestFile, doneText) // the dump is complete
}

// inspect reads the present tree.
func (d *dumper) inspect() error {
	var err error
	if d.old, d.oldText, err = readManifest(d.root); err != nil {
		return err
	}
	d.known = d.old.byPath()
	if d.listed, err = listPages(d.root); err != nil {
		return err
	}
	d.files = make(map[string]*treeFile, len(d.listed))
	for i := range d.listed {
		d.files[d.listed[i].path] = &d.listed[i]
	}
	return nil
}

// plan selects the pages to write and delete, and renders and checks them. It
// changes no file.
func (d *dumper) plan() error {
	var buf []byte
	planned := make(map[string]bool, len(d.paths))
	for i := range d.entries {
		e, p := &d.entries[i], d.paths[i]
		planned[p] = true
		stem := strings.TrimSuffix(path.Base(p), pageExt)
		buf = appendPage(buf[:0], e, stem)
		mp := manifestPage{Path: p, Name: e.Name, ID: e.ID, Created: e.CreatedAt, Entry: entryHash(e), Page: pageHash(buf), Size: int64(len(buf))}
		same, err := d.isCurrent(&mp, e)
		if err != nil {
			return err
		}
		if same {
			d.report.Unchanged++
		} else {
			if err := checkPage(buf, e, stem); err != nil {
				return &Error{Path: p, Msg: err.Error(), Remedy: "report this bug; until it is fixed, use crabmem export"}
			}
			d.write = append(d.write, i)
			d.report.Written = append(d.report.Written, p)
		}
		d.next.Pages = append(d.next.Pages, mp)
		d.step(len(d.entries))
	}
	for i := range d.listed {
		if f := &d.listed[i]; !planned[f.path] {
			if err := d.surplus(f); err != nil {
				return err
			}
		}
	}
	return d.planRest()
}

// isCurrent reports whether the file at the page's path equals the page.
func (d *dumper) isCurrent(mp *manifestPage, e *crmem.Entry) (bool, error) {
	f := d.files[mp.Path]
	if f == nil {
		return false, nil
	}
	known := d.known[mp.Path]
	b, err := d.read(f, max(mp.Size, pageFits))
	if err != nil {
		return false, err
	}
	hash := pageHash(b)
	switch {
	case b == nil:
		d.refuse(f.path, known)
	case hash == mp.Page:
		return true, nil
	case known.writtenByDump(hash), d.taken(b, e, f, known):
		mp.Old = hash
	default:
		d.refuse(f.path, known)
	}
	return false, nil
}

// taken reports whether the snapshot contains the entry of an edited page.
func (d *dumper) taken(b []byte, e *crmem.Entry, f *treeFile, known *manifestPage) bool {
	if known == nil && (d.old == nil || d.old.Loaded[e.Name] == "") {
		return false
	}
	p, err := parsePage(b)
	if err != nil {
		return false
	}
	got := p.Entry
	got.ID, got.Kind = e.ID, f.kind
	if !p.named {
		got.Name = f.stem()
	}
	if !p.hasTime {
		got.CreatedAt = e.CreatedAt
	}
	return len(p.warnings) == 0 && got.Equal(*e)
}

// surplus plans the removal or refusal of a file that is not a page of the
// snapshot.
func (d *dumper) surplus(f *treeFile) error {
	known := d.known[f.path]
	if known == nil {
		of, temp := temporaryOf(f.path)
		switch {
		case temp && f.mode.IsRegular() && d.old != nil && d.old.State == stateUnfinished && d.known[of] != nil:
			d.sweep = append(d.sweep, f.path)
		case !f.hidden():
			d.refuse(f.path, nil)
		}
		return nil
	}
	b, err := d.read(f, max(known.Size, pageFits))
	if err != nil {
		return err
	}
	if hash := pageHash(b); b != nil && known.writtenByDump(hash) {
		d.remove = append(d.remove, manifestPage{Path: f.path, Name: known.Name, ID: known.ID, Created: known.Created, Old: hash})
		d.report.Deleted = append(d.report.Deleted, f.path)
	} else {
		d.refuse(f.path, known)
	}
	return nil
}

func (d *dumper) refuse(name string, known *manifestPage) {
	if known != nil {
		d.refused.Edited = append(d.refused.Edited, name)
	} else {
		d.refused.Foreign = append(d.refused.Foreign, name)
	}
}

// read reads a page. It returns nil if the file is too large or is not a
// regular file, so that dump cannot have written it.
func (d *dumper) read(f *treeFile, most int64) ([]byte, error) {
	most = min(most, maxPage) // the size in a manifest is not trusted
	if !f.mode.IsRegular() || f.size > most {
		return nil, nil
	}
	b, err := vfs.ReadFile(d.root, f.path, most)
	if _, large := errors.AsType[*vfs.TooLargeError](err); large || errors.Is(err, vfs.ErrNotRegular) {
		return nil, nil
	}
	if err == nil && b == nil {
		b = []byte{}
	}
	return b, err
}

// planRest plans the files other than pages.
func (d *dumper) planRest() error {
	text := summary(d.entries, d.paths)
	d.next.Summary = pageHash(text)
	d.summary = text
	if d.root == nil {
		d.report.Seeded = true
		return nil
	}
	fi, err := d.root.Lstat(summaryFile)
	if err == nil {
		b, rerr := d.read(&treeFile{path: summaryFile, mode: fi.Mode(), size: fi.Size()}, max(int64(len(text)), maxManifest))
		if rerr != nil {
			return rerr
		}
		hash := pageHash(b)
		switch {
		case b != nil && hash == d.next.Summary:
			d.summary = nil
		case b != nil && d.old != nil && (hash == d.old.Summary || hash == d.old.OldSummary):
			d.next.OldSummary = hash
		case d.old != nil:
			d.refused.Edited = append(d.refused.Edited, summaryFile)
		default:
			d.refused.Foreign = append(d.refused.Foreign, summaryFile)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := d.root.Lstat(bookFile); errors.Is(err, fs.ErrNotExist) {
		d.report.Seeded = true
	} else if err != nil {
		return err
	}
	top, err := d.root.ReadDir(".")
	if err != nil {
		return err
	}
	for _, f := range top {
		of, temp := temporaryOf(f.Name())
		if !temp || !f.Type().IsRegular() {
			continue
		}
		unfinished := d.old != nil && d.old.State == stateUnfinished
		if of == manifestFile || unfinished && (of == summaryFile || of == bookFile) {
			d.sweep = append(d.sweep, f.Name())
		}
	}
	return nil
}

func (d *dumper) step(total int) {
	d.steps++
	if d.opts.Progress != nil {
		d.opts.Progress(min(d.steps, total), total)
	}
}
