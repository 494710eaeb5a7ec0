package tree

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// Format is another form of the pages of a tree, for another program than mdbook. A
// dump then writes no SUMMARY.md, book.toml, or style. It ignores all files that it
// neither wrote nor would overwrite. [Load] refuses such a tree.
type Format struct {
	// Name is in the manifest.
	Name string
	// Stem returns a name that the other program accepts as the stem of a file. Dump
	// escapes the characters that file systems do not accept, and makes stems unique.
	Stem func(name string) string
	// Begin receives the entries of the dump and the stems of their pages.
	Begin func(entries []crmem.Entry, stems []string)
	// Append appends the page of an entry. Several goroutines call it.
	Append func(b []byte, e *crmem.Entry, stem string) []byte
	// Parse sets the fields of e to those of a page. It keeps fields that the page
	// does not have.
	Parse func(page []byte, stem string, e *crmem.Entry) error
}

// FormatOf returns the name of the [Format] of a tree. It is empty for a tree of
// pages that [Load] reads. If the last dump was interrupted, FormatOf returns an error.
func FormatOf(t vfs.Tree) (string, error) {
	s, err := readState(t)
	if err != nil {
		return "", err
	}
	if s.form != "" && s.unfinished() != "" {
		err = &Error{Path: s.unfinished(), Msg: "the last export to this directory was interrupted", Remedy: "run crabmem export --format " + s.form + " to complete it"}
	}
	return s.form, err
}

// formName returns the name of the format of the dump, or "".
func (o *DumpOptions) formName() string {
	if o.Format == nil {
		return ""
	}
	return o.Format.Name
}

// begin checks that the tree has no pages of another format.
func (d *dumper) begin() error {
	if d.state.dumped() && d.state.form != d.opts.formName() {
		return otherFormat(d.state.form)
	}
	return nil
}

// otherFormat is the error for a tree with pages of a format.
func otherFormat(format string) error {
	if format == "" {
		return &Error{Path: manifestFile, Msg: "crabmem dump wrote this tree", Remedy: "choose another directory, or run crabmem dump"}
	}
	return &Error{Path: manifestFile, Msg: "crabmem export --format " + format + " wrote this directory", Remedy: "choose another directory, or run crabmem import"}
}

// pages is the format of a tree that [Load] reads.
var pages = &Format{Append: appendPage, Parse: parseEntry}

// format returns the format of the dump.
func (d *dumper) format() *Format { return cmp.Or(d.opts.Format, pages) }

// parseEntry is the function Parse of [pages].
func parseEntry(b []byte, stem string, e *crmem.Entry) error {
	p, err := parsePage(b)
	if err != nil {
		return err
	}
	if len(p.warnings) > 0 {
		return errors.New(p.warnings[0])
	}
	e.Name, e.Aliases, e.Content = stem, p.Aliases, p.Content
	if p.named {
		e.Name = p.Name
	}
	if p.hasID {
		e.ID = p.ID
	}
	if p.hasTime {
		e.CreatedAt = p.CreatedAt
	}
	return nil
}

// checkPage reads back a page before it is written: first as an import or load does. Then
// Markdown readers must see the metadata of a tree's page as HTML.
func (d *dumper) checkPage(b []byte, e *crmem.Entry, stem string) error {
	var got crmem.Entry
	if d.opts.Format == nil {
		got.Kind = e.Kind // its directory
	}
	if err := d.format().Parse(b, stem, &got); err != nil {
		return err
	}
	if !got.Equal(*e) {
		return fmt.Errorf("the page does not decode to the entry (ID %d)", e.ID)
	}
	if d.opts.Format == nil {
		return checkBlock(b, e.ID)
	}
	return nil
}

// samePage reports whether dump would write a page for e with the ID of the page.
// Stores that share a tree may have given an entry different IDs.
func (d *dumper) samePage(b []byte, e *crmem.Entry, f *treeFile) bool {
	var got crmem.Entry
	if d.format().Parse(b, f.stem(), &got) != nil || got.ID == 0 {
		return false
	}
	same := *e
	same.ID = got.ID
	return bytes.Equal(b, d.format().Append(nil, &same, f.stem()))
}

// contains reports whether a page has the text of the entry e alone.
func (d *dumper) contains(e *crmem.Entry, b []byte, f *treeFile) bool {
	got := *e
	if d.opts.Format == nil {
		got.Kind = f.kind
	}
	err := d.format().Parse(b, f.stem(), &got)
	got.ID = e.ID
	return err == nil && got.Equal(*e)
}

// ignores reports whether the dump leaves a file that it did not write. On a file
// system that ignores case, a page may overwrite a file of another spelling.
func (d *dumper) ignores(f *treeFile) bool {
	return f.hidden() || d.opts.Format != nil && !d.folded[foldKey(f.path)]
}

// stemOf returns the stem of a page.
func stemOf(page string) string { return strings.TrimSuffix(path.Base(page), pageExt) }

// editedAdvice is the advice for a dump that would overwrite edited pages.
func editedAdvice(format string) string {
	if format == "" {
		return "run crabmem load --merge to load the pages, move the other files, or run crabmem dump --force to move both aside"
	}
	return "run crabmem import --replace to import the pages, move the other files, or run crabmem export --format " + format + " --force to move both aside"
}
