package tree

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// plan selects the pages to write and delete, and renders and checks them. It
// changes no file.
func (d *dumper) plan() error {
	var buf []byte
	planned := make(map[string]bool, len(d.paths))
	d.folded = make(map[string]bool, len(d.paths))
	for i := range d.entries {
		e, p := &d.entries[i], d.paths[i]
		planned[p], d.folded[foldKey(p)] = true, true
		stem := stemOf(p)
		buf = d.format().Append(buf[:0], e, stem)
		mp := basePage{Path: p, Name: e.Name, ID: e.ID, Created: uint64(e.CreatedAt), Entry: entryHash(e), Page: pageHash(buf), Size: int64(len(buf))}
		same, err := d.isCurrent(&mp, e)
		if err != nil {
			return err
		}
		if same {
			d.report.Unchanged++
		} else {
			if err := d.checkPage(buf, e, stem); err != nil {
				return &Error{Path: p, Msg: err.Error(), Remedy: "report this bug; until it is fixed, use crabmem export"}
			}
			d.write = append(d.write, i)
			d.report.Written = append(d.report.Written, p)
		}
		d.next.Pages = append(d.next.Pages, mp)
		d.addUnlimited(e, &mp)
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

// addUnlimited records a page that load would refuse as a new entry.
func (d *dumper) addUnlimited(e *crmem.Entry, mp *basePage) {
	if mp.Size > MaxPage || (crmem.Add{Name: e.Name, Content: e.Content, Aliases: e.Aliases, Kind: e.Kind}).Validate() != nil {
		d.record.Unlimited = append(d.record.Unlimited, unlimitedPage{mp.Path, mp.Page, mp.Size})
	}
}

// isCurrent reports whether the file at the page's path equals the page.
func (d *dumper) isCurrent(mp *basePage, e *crmem.Entry) (bool, error) {
	f := d.files[mp.Path]
	if f == nil {
		return false, nil
	}
	b, err := d.read(f, max(mp.Size, d.known.size(mp.Path), MaxPage))
	if err != nil {
		return false, err
	}
	hash := pageHash(b)
	switch {
	case b == nil:
		d.refuse(f.path)
	case hash == mp.Page:
		return true, nil
	case d.samePage(b, e, f):
		mp.Page, mp.Size = hash, int64(len(b))
		return true, nil
	case d.known.has(mp.Path, hash), d.state.dumped() && d.contains(e, b, f):
		d.present[mp.Path] = hash
	default:
		d.refuse(f.path)
	}
	return false, nil
}

// surplus plans the removal or refusal of a file that is not a page of the
// snapshot.
func (d *dumper) surplus(f *treeFile) error {
	if d.known.at(f.path) == nil {
		of, temp := temporaryOf(f.path)
		switch {
		case temp && f.mode.IsRegular() && d.interrupted() && d.known.at(of) != nil:
			d.sweep = append(d.sweep, f.path)
		case d.ignores(f):
		case originalOf(f.path) != "":
			d.report.Warnings = append(d.report.Warnings, copyWarning(f.path, originalOf(f.path)))
		default:
			d.refuse(f.path)
		}
		return nil
	}
	b, err := d.read(f, max(d.known.size(f.path), MaxPage))
	if err != nil {
		return err
	}
	if hash := pageHash(b); b != nil && d.known.has(f.path, hash) {
		d.remove = append(d.remove, f.path)
		d.present[f.path] = hash
		d.report.Deleted = append(d.report.Deleted, f.path)
	} else {
		d.refuse(f.path)
	}
	return nil
}

// interrupted reports whether an earlier dump did not end.
func (d *dumper) interrupted() bool { return d.state.unfinished() != "" || d.old.Next != "" }

func (d *dumper) refuse(name string) {
	if d.known.at(name) != nil || name == summaryFile && d.state.dumped() {
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
	return b, err
}

// planRest plans the files other than pages.
func (d *dumper) planRest() error {
	d.record.NextID, d.record.Entries = d.snapshot.NextID, len(d.entries)
	if d.opts.Format != nil {
		if d.root == nil {
			return nil
		}
		return d.planSweep()
	}
	d.summary = summary(d.entries, d.paths)
	if d.root == nil {
		d.seed = seedFiles
		d.report.Seeded = true
		return nil
	}
	fi, err := d.root.Lstat(summaryFile)
	if err == nil {
		b, err := d.read(&treeFile{path: summaryFile, mode: fi.Mode(), size: fi.Size()}, maxManifest)
		switch {
		case err != nil:
			return err
		case b != nil && bytes.Equal(b, d.summary):
			d.summary = nil
		case b == nil || !d.ownSummary(string(b)):
			d.refuse(summaryFile)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range seedFiles {
		if _, err := d.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			d.seed = append(d.seed, name)
			d.report.Seeded = d.report.Seeded || name == bookFile
		} else if err != nil {
			return err
		}
	}
	return d.planSweep()
}

// planSweep finds temporary files of interrupted dumps.
func (d *dumper) planSweep() error {
	for _, dir := range []string{".", recordDir} {
		list, err := d.root.ReadDir(dir)
		if err != nil && (dir == "." || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		for _, f := range list {
			of, temp := temporaryOf(f.Name())
			if !temp || !f.Type().IsRegular() {
				continue
			}
			if dir == recordDir || of == manifestFile || d.interrupted() && (of == summaryFile || slices.Contains(seedFiles, of)) {
				d.sweep = append(d.sweep, path.Join(dir, f.Name()))
			}
		}
	}
	return nil
}
