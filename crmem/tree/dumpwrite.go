package tree

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"crabmem/crmem/vfs"
)

// apply makes the planned changes. The old base contains each page that apply replaces
// or deletes. The new base, which is saved first, contains each page that it writes.
// So a dump after a crash recognizes every page.
func (d *dumper) apply(moves []string) error {
	if err := d.moveAside(moves); err != nil {
		return err
	}
	d.record.Dump, d.record.State = newID(), stateUnfinished
	past := d.state.past(d.old.Dumps)
	past = past[max(0, len(past)-maxDumps+1):]
	for _, before := range past {
		d.record.After = append(d.record.After, link(d.record.Dump, before))
	}
	unfinished := *d.old
	unfinished.Next, unfinished.next = d.record.Dump, append(slices.Clone(d.old.next), d.next.Pages...)
	unfinished.Tree, unfinished.NextID = d.state.id, d.next.NextID
	if unfinished.Tree == "" {
		unfinished.Tree = newID()
	}
	if err := d.save(&unfinished, d.old); err != nil {
		return err
	}
	if d.state.id == "" {
		if err := writeManifest(d.root, unfinished.Tree, d.opts.formName()); err != nil {
			return err
		}
	}
	if err := d.record.write(d.root); err != nil {
		return err
	}
	for _, name := range d.sweep {
		if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := d.writePages(); err != nil {
		return err
	}
	if err := d.deletePages(); err != nil {
		return err
	}
	if d.summary != nil {
		if err := replaceFile(d.root, summaryFile, d.summary); err != nil {
			return err
		}
	}
	for _, name := range d.seed {
		if err := replaceFile(d.root, name, []byte(seeds[name])); err != nil {
			return err
		}
	}
	d.next.Tree, d.next.Dumps = unfinished.Tree, append(slices.Clone(past), d.record.Dump)
	if err := d.save(&d.next, &unfinished); err != nil {
		return err
	}
	d.record.State = stateDone
	if err := d.record.write(d.root); err != nil { // the dump is complete
		return err
	}
	return d.removeRecords()
}

// removeRecords removes the records of the store's previous dumps, and those of
// interrupted dumps, which this dump completed.
func (d *dumper) removeRecords() error {
	removed := false
	for dump, r := range d.state.records {
		if slices.Contains(d.old.Dumps, dump) || r.State == stateUnfinished {
			if err := d.root.Remove(r.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			removed = true
		}
	}
	if !removed {
		return nil
	}
	return d.root.SyncDir(recordDir)
}

// moveAside renames the files that Force permits to move into a new directory
// of the tree.
func (d *dumper) moveAside(moves []string) error {
	if len(moves) == 0 {
		return nil
	}
	aside := ""
	for n := 1; ; n++ {
		aside = "aside-" + strconv.Itoa(n)
		err := d.root.Mkdir(aside, 0o700)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// Sync the new directories before the first rename, and the new name of a
	// file before its old name.
	to, from := []string{aside}, []string{"."}
	for _, name := range moves {
		dir := path.Dir(name)
		if slices.Contains(from, dir) {
			continue
		}
		if err := d.root.Mkdir(path.Join(aside, dir), 0o700); err != nil {
			return err
		}
		to, from = append(to, path.Join(aside, dir)), append(from, dir)
	}
	for _, dir := range []string{".", aside} {
		if err := d.root.SyncDir(dir); err != nil {
			return err
		}
	}
	for _, name := range moves {
		if err := d.root.Rename(name, path.Join(aside, name)); err != nil {
			return err
		}
		d.report.Aside = append(d.report.Aside, path.Join(aside, name))
	}
	for _, dir := range append(to, from...) {
		if err := d.root.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) writePages() error {
	var used [len(kindDirs)]bool
	for _, i := range d.write {
		used[d.entries[i].Kind] = true
	}
	for kind, dir := range kindDirs {
		if !used[kind] {
			continue
		}
		err := d.root.Mkdir(dir, 0o700)
		if err == nil {
			err = d.root.SyncDir(".")
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := d.replacePages(); err != nil {
		return err
	}
	for kind, dir := range kindDirs {
		if used[kind] {
			if err := d.root.SyncDir(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// Several pages are replaced concurrently: each write mostly waits for the
// disk, and a disk can sync many files at once.
const (
	pageWriters = 16
	manyPages   = 256
)

func (d *dumper) replacePages() error {
	writers := 1
	if len(d.write) >= manyPages {
		writers = pageWriters
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards at, err and the calls of Progress
		at   int
		err  error
		next = func() (int, bool) {
			mu.Lock()
			defer mu.Unlock()
			if at == len(d.write) || err != nil {
				return 0, false
			}
			if at > 0 {
				d.step(len(d.entries) + len(d.write))
			}
			at++
			return d.write[at-1], true
		}
	)
	for range writers {
		wg.Go(func() {
			var buf []byte
			for i, ok := next(); ok; i, ok = next() {
				buf = d.format().Append(buf[:0], &d.entries[i], stemOf(d.paths[i]))
				if rerr := d.replacePage(&d.next.Pages[i], buf); rerr != nil {
					mu.Lock()
					err = errors.Join(err, rerr)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	d.step(len(d.entries) + len(d.write))
	return err
}

// replacePage is vfs.Replace without the sync of the directory, which many
// pages share. It first compares the page again, in case another program saved
// it since plan.
func (d *dumper) replacePage(mp *basePage, b []byte) error {
	perm := fs.FileMode(0o600)
	if d.present[mp.Path] != "" {
		perm = d.files[mp.Path].mode.Perm()
		if err := d.unedited(mp.Path); err != nil {
			return err
		}
	}
	p, err := d.root.Pending(mp.Path, perm)
	if err != nil {
		return err
	}
	if _, err := p.Write(b); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := p.Commit(); err != nil {
		return errors.Join(err, p.Discard())
	}
	return nil
}

// unedited returns an error if a page to replace or delete has changed since plan.
func (d *dumper) unedited(page string) error {
	f := d.files[page]
	b, err := d.read(f, max(f.size, MaxPage))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (b == nil || pageHash(b) != d.present[page]) {
		err = &Error{Path: page, Msg: "was edited during the dump", Remedy: "run crabmem dump again to complete the dump"}
	}
	return err
}

// deletePages deletes the pages of removed entries. On a file system that
// ignores case, such a page may be another spelling of a page that was just
// written; deletePages renames it to that spelling.
func (d *dumper) deletePages() error {
	if len(d.remove) == 0 {
		return nil
	}
	written := make(map[string]string, len(d.write))
	for _, i := range d.write {
		written[foldKey(d.paths[i])] = d.paths[i]
	}
	for _, page := range d.remove {
		if twin, ok := written[foldKey(page)]; ok {
			a, err1 := d.root.Lstat(page)
			b, err2 := d.root.Lstat(twin)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			id := vfs.Identify(a)
			same := id == vfs.Identify(b) && (id != vfs.Identity{} || strings.EqualFold(page, twin))
			if same {
				if err := d.root.Rename(page, twin); err != nil {
					return err
				}
				continue
			}
		}
		if err := d.unedited(page); err != nil {
			return err
		}
		if err := d.root.Remove(page); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, dir := range kindDirs {
		if err := d.root.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// replaceFile replaces a file of a tree.
func replaceFile(t vfs.Tree, name string, b []byte) error {
	return vfs.WriteFile(t, name, 0o600, b)
}
