package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// apply makes the planned changes, except the last manifest.
func (d *dumper) apply(moves []string) error {
	if err := d.moveAside(moves); err != nil {
		return err
	}
	unfinished := d.next
	unfinished.State = stateUnfinished
	unfinished.Pages = append(append([]manifestPage{}, d.next.Pages...), d.remove...)
	text, err := unfinished.encode()
	if err != nil {
		return err
	}
	if err := replaceFile(d.root, manifestFile, text); err != nil {
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
	if d.report.Seeded {
		return replaceFile(d.root, bookFile, []byte(seedBook))
	}
	return nil
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
				buf = appendPage(buf[:0], &d.entries[i], strings.TrimSuffix(path.Base(d.paths[i]), pageExt))
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
func (d *dumper) replacePage(mp *manifestPage, b []byte) error {
	f := d.files[mp.Path]
	perm := fs.FileMode(0o600)
	if f != nil && mp.Old != "" {
		perm = f.mode.Perm()
		if err := d.unedited(mp); err != nil {
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

func (d *dumper) unedited(mp *manifestPage) error {
	b, err := d.read(d.files[mp.Path], max(mp.Size, pageFits))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (b == nil || pageHash(b) != mp.Old) {
		err = &Error{Path: mp.Path, Msg: "was edited during the dump", Remedy: "run crabmem dump again to complete the dump"}
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
	for i := range d.remove {
		mp := &d.remove[i]
		if twin, ok := written[foldKey(mp.Path)]; ok {
			a, err1 := d.root.Lstat(mp.Path)
			b, err2 := d.root.Lstat(twin)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			id := vfs.Identify(a)
			same := id == vfs.Identify(b) && (id != vfs.Identity{} || strings.EqualFold(mp.Path, twin))
			if same {
				if err := d.root.Rename(mp.Path, twin); err != nil {
					return err
				}
				continue
			}
		}
		if err := d.unedited(mp); err != nil {
			return err
		}
		if err := d.root.Remove(mp.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

const (
	summaryFile = "SUMMARY.md"
	bookFile    = "book.toml"

	// seedBook configures mdbook to serve the tree. dump writes it once and
	// never changes it.
	seedBook = "[book]\ntitle = \"Memory\"\nsrc = \".\"\n\n[output.html]\n"
)

// summary renders SUMMARY.md, mdbook's table of contents: the entries of each
// kind by name. load ignores it.
func summary(entries []crmem.Entry, paths []string) []byte {
	var b strings.Builder
	b.WriteString("# Summary\n\n")
	for kind, title := range []string{crmem.Note: "Notes", crmem.Archive: "Archives"} {
		var list []int
		for i, e := range entries {
			if e.Kind == crmem.Kind(kind) {
				list = append(list, i)
			}
		}
		if len(list) == 0 {
			continue
		}
		slices.SortFunc(list, func(i, j int) int { return cmp.Compare(entries[i].Name, entries[j].Name) })
		fmt.Fprintf(&b, "# %s\n\n", title)
		for _, i := range list {
			fmt.Fprintf(&b, "- [%s](%s)\n", linkText(entries[i].Name), linkDest(paths[i]))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// linkText renders a name as literal text in Markdown.
func linkText(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r < ' ':
			r += 0x2400 // its control picture
		case r == 0x7f:
			r = 0x2421
		case unicode.Is(unicode.Zs, r):
			r = ' '
		case !unicode.IsPrint(r) && r != '\u200c' && r != '\u200d': // joiners shape letters and emoji
			r = unicode.ReplacementChar
		}
		if r < 0x80 && strings.ContainsRune("\\`*_[]<>&~!|$^{}#", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	if s := strings.TrimSpace(b.String()); s != "" {
		return s
	}
	return "(no name)"
}

// linkDest renders a page's path as the target of a link. A stem contains no
// percent sign, so readers that decode only %20, as mdbook does, and readers
// that decode all escapes agree.
var linkDest = strings.NewReplacer(" ", "%20", "(", `\(`, ")", `\)`).Replace

// replaceFile replaces a file of a tree.
func replaceFile(t vfs.Tree, name string, b []byte) error {
	return vfs.Replace(t, name, 0o600, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}
