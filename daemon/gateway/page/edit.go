package page

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// formView is what the form of an entry shows.
type formView struct {
	ID      uint64 // 0: a new note
	Name    string
	Aliases string // one per line
	Content string
	ETag    string
	CRLF    bool   // the content has the line ends CRLF
	Problem string // why the note was not saved

	// Of a conflict: the present content, and its difference to the one in the form.
	Current string
	Lines   []diffLine
	Long    bool // too long for a comparison
}

// uneditable returns why a form cannot contain an entry. A browser sends each line end as
// CRLF, and replaces some characters.
func uneditable(e *crmem.Entry) string {
	if e.Kind != crmem.Note {
		return "it is an archive of a conversation"
	}
	for _, text := range append([]string{e.Content}, e.Aliases...) {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' }) {
			return "it contains control characters: use crabmem edit"
		}
	}
	if lone := strings.ReplaceAll(e.Content, "\r\n", ""); strings.Contains(lone, "\r") || strings.Contains(lone, "\n") && lone != e.Content {
		return "it contains different line ends: use crabmem edit"
	}
	for _, a := range e.Aliases {
		if strings.ContainsAny(a, "\r\n") || strings.TrimSpace(a) != a {
			return "an alias contains a line end, or begins or ends with a space: use crabmem edit"
		}
	}
	return ""
}

// formOf returns the form of an entry.
func formOf(e *crmem.Entry) formView {
	return formView{ID: e.ID, Name: e.Name, Aliases: strings.Join(e.Aliases, "\n"), Content: e.Content, ETag: op.ETag(e), CRLF: strings.Contains(e.Content, "\r\n")}
}

// sent returns the form that a browser sent.
func (v *visit) sent() formView {
	form := v.r.PostForm
	f := formView{Name: form.Get("name"), ETag: form.Get("etag"), CRLF: form.Get("crlf") != "", Content: form.Get("content"), Aliases: unixLines(form.Get("aliases"))}
	if !f.CRLF {
		f.Content = unixLines(f.Content)
	}
	return f
}

// unixLines undoes the line ends of a form.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// aliases returns the aliases of the form, without empty lines.
func (f *formView) aliases() []string {
	list := []string{}
	for line := range strings.SplitSeq(f.Aliases, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

func (v *visit) newMemory() error {
	return v.show("edit.html", http.StatusOK, view{Title: "New note", Nav: "new", Data: formView{}})
}

func (v *visit) createMemory() error {
	f := v.sent()
	f.Name = strings.TrimSpace(f.Name)
	add := crmem.Add{Name: f.Name, Content: f.Content, Aliases: f.aliases()}
	err := add.Validate()
	if err == nil {
		var list []crmem.Entry
		if list, err = op.ApplyOps(v.r.Context(), v.store(), add); err == nil {
			return v.see(pathOf(list[0].ID))
		}
		switch {
		case errors.Is(err, crmem.ErrExists):
			err = fmt.Errorf("an entry has the name %s: choose another name", display.Quoted(f.Name))
		case !isRefused(err):
			return err
		}
	}
	f.Problem = err.Error()
	return v.show("edit.html", http.StatusUnprocessableEntity, view{Title: "New note", Nav: "new", Data: f})
}

// isRefused reports whether the daemon refused a text, such as one with a secret. The
// form is sent again: it contains what a person wrote.
func isRefused(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Code == http.StatusUnprocessableEntity || e.Code == http.StatusBadRequest)
}

// editable returns the entry with the ID in the path, if a form can contain it.
func (v *visit) editable() (*crmem.Entry, error) {
	e, err := v.entry()
	if err != nil {
		return nil, err
	}
	if why := uneditable(e); why != "" {
		return nil, &errtable.Error{HTTP: http.StatusConflict, Message: "the entry cannot be edited here: " + why}
	}
	return e, nil
}

func (v *visit) editMemory() error {
	e, err := v.editable()
	if err != nil {
		return err
	}
	return v.show("edit.html", http.StatusOK, view{Title: "Edit " + display.Label(e.Name), Nav: "memories", Data: formOf(e)})
}

// saveMemory replaces content and aliases. If the entry has changed since the form was
// made, it sends the form again, with the present content.
func (v *visit) saveMemory() error {
	e, err := v.editable()
	if err != nil {
		return err
	}
	f := v.sent()
	f.ID, f.Name = e.ID, e.Name
	if f.ETag != op.ETag(e) {
		return v.conflict(f, e)
	}
	update := crmem.Update{Name: e.Name, Content: f.Content, Aliases: f.aliases()}
	err = update.Validate()
	invalid := err != nil
	if !invalid {
		_, err = op.ApplyOps(v.r.Context(), v.store(), crmem.Unchanged{Entry: *e}, update)
	}
	if invalid || isRefused(err) {
		f.Problem = err.Error()
		return v.show("edit.html", http.StatusUnprocessableEntity, view{Title: "Edit " + display.Label(e.Name), Nav: "memories", Data: f})
	}
	if errors.Is(err, crmem.ErrStale) {
		if e, err = v.entry(); err == nil {
			return v.conflict(f, e)
		}
	}
	if err != nil {
		return err
	}
	return v.see(pathOf(e.ID))
}

// conflict sends a form whose entry has changed. The next try has the new etag.
func (v *visit) conflict(f formView, now *crmem.Entry) error {
	f.ETag, f.Current, f.CRLF = op.ETag(now), now.Content, strings.Contains(now.Content, "\r\n")
	f.Lines, f.Long = compare(now.Content, f.Content)
	return v.show("edit.html", http.StatusConflict, view{Title: "Conflict: " + display.Label(now.Name), Nav: "memories", Data: f})
}

type removalView struct {
	*crmem.Entry
	ETag string
}

func (v *visit) askRemoval() error {
	e, err := v.entry()
	if err != nil {
		return err
	}
	return v.show("remove.html", http.StatusOK, view{Title: "Remove " + display.Label(e.Name), Nav: "memories", Data: removalView{e, op.ETag(e)}})
}

func (v *visit) removeMemory() error {
	e, err := v.entry()
	if err != nil {
		return err
	}
	changed := &errtable.Error{HTTP: http.StatusConflict, Message: "the entry has changed", Fix: "read it again, then remove it"}
	if e.Kind != crmem.Note {
		return &errtable.Error{HTTP: http.StatusForbidden, Message: "an archive of a conversation is not removed here", Fix: "run crabmem forget --archive"}
	}
	if v.r.PostForm.Get("etag") != op.ETag(e) {
		return changed
	}
	_, err = op.ApplyOps(v.r.Context(), v.store(), crmem.Unchanged{Entry: *e}, crmem.Remove{Name: e.Name})
	if errors.Is(err, crmem.ErrStale) {
		return changed
	}
	if err != nil {
		return err
	}
	return v.see(pathOf(e.ID) + "/history")
}
