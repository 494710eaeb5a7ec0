package op

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
)

// Addition is a text to add to a note.
type Addition struct {
	Name     string         `json:"name" jsonschema:"the name of the note, or an alias that no other entry has" op:"chars=2048,filled"`
	Text     string         `json:"text" jsonschema:"the text to add, in Markdown; it begins on a new line" op:"filled"`
	Metadata *metadata.Edit `json:"metadata,omitempty" op:"owner"`
}

var Append = Add(errtable.Store, Op[Store, Addition, Written]{
	Name: "entries.append", Does: "Add text at the end of a note.", Effect: Writes, Need: NeedWrite,
	Tool: &Tool{Name: "append", Title: "Append to a note",
		Does: "Add text at the end of a note, on a new line. The note keeps its text, aliases, and metadata. For a new note, use remember."},
	Path: "POST /v1/memories/append", Fails: writeFails,
	Did: func(_ *Addition, w *Written) once.Effect { return w.effect() }, Again: writtenAgain,
	Run: func(ctx context.Context, s Store, in *Addition) (Written, error) {
		if IsBlank(in.Text) {
			return Written{}, errtable.Invalidf("the text to append to %s is empty; nothing was written", display.Label(in.Name))
		}
		return s.revise(ctx, in.Name, func(e crmem.Entry) (crmem.Update, error) {
			text := e.Content
			if text != "" && !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
			o := crmem.Remember{Name: e.Name, Content: text + in.Text, Metadata: in.Metadata}
			content, err := o.ContentFor(e.Content)
			return crmem.Update{Content: content, Aliases: e.Aliases}, err
		})
	},
})

// PassageEdit replaces a passage of a note.
type PassageEdit struct {
	Name string `json:"name" jsonschema:"the name of the note, or an alias that no other entry has" op:"chars=2048,filled"`
	Old  string `json:"old_text" jsonschema:"the passage to replace, with its exact white space; it must occur once in the note" op:"filled"`
	New  string `json:"new_text" jsonschema:"the text in its place; an empty text removes the passage"`
}

// maxCounted limits how many occurrences an error counts.
const maxCounted = 100

var EditNote = Add(errtable.Store, Op[Store, PassageEdit, Written]{
	Name: "entries.edit", Does: "Replace a passage of a note.", Effect: Writes, Need: NeedWrite,
	Fails: writeFails,
	Tool: &Tool{Name: "edit", Title: "Edit a note",
		Does: "Replace one passage of a note, and keep the rest. The passage must occur exactly once: include text around it if needed. Read the note with get_memory first."},
	Did: func(_ *PassageEdit, w *Written) once.Effect { return w.effect() }, Again: writtenAgain,
	Run: func(ctx context.Context, s Store, in *PassageEdit) (Written, error) {
		if in.Old == "" {
			return Written{}, errtable.Invalidf("old_text is empty; nothing was written")
		}
		return s.revise(ctx, in.Name, func(e crmem.Entry) (crmem.Update, error) {
			text, n := metadata.Text(e.Content), 0
			for rest := text; n < maxCounted; n++ {
				at := strings.Index(rest, in.Old)
				if at < 0 {
					break
				}
				rest = rest[at+1:] // occurrences may overlap
			}
			if n != 1 {
				return crmem.Update{}, notOnce(s.Store, e.Name, n, strings.Contains(e.Content, in.Old))
			}
			front := strings.TrimSuffix(e.Content, text)
			return crmem.Update{Content: front + strings.Replace(text, in.Old, in.New, 1), Aliases: e.Aliases}, nil
		})
	},
})

// notOnce returns the error for a passage that occurs n times. inFront reports whether the
// metadata contains it.
func notOnce(s *crmem.Store, name string, n int, inFront bool) error {
	times, fix := "does not occur", "read the note with get_memory, then send a passage exactly as the note contains it"
	if n == 0 && inFront {
		fix = "the passage is metadata: change it with the arguments of remember"
	}
	if n > 0 {
		times, fix = fmt.Sprintf("occurs %d times", n), "include more of the text around the passage in old_text"
	}
	if n == maxCounted {
		times = fmt.Sprintf("occurs at least %d times", n)
	}
	return &errtable.Error{Kind: "passage", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: s.Path(), Fix: fix,
		Message: "old_text " + times + " in " + display.ShownName(name) + "; nothing was written"}
}

// revise replaces a note by what f returns for it. The update of f needs no name. Update
// calls f again if the note changed since f read it.
func (s Store) revise(ctx context.Context, name string, f func(crmem.Entry) (crmem.Update, error)) (Written, error) {
	var before crmem.Entry
	list, err := s.Update(ctx, func(st *crmem.Store) (_ []crmem.Op, err error) {
		if before, err = FindEntry(st, name); err != nil {
			return nil, err
		}
		if before.Kind != crmem.Note {
			return nil, isArchive(st, before.Name, "use crabmem edit to change an archive")
		}
		o, err := f(before)
		o.Name = before.Name
		return []crmem.Op{o}, err
	})
	if err != nil {
		return Written{}, err
	}
	return Replaced(list[0], before), nil
}

// Restoration names a removed note, or an earlier version of a note.
type Restoration struct {
	Name   string `json:"name" jsonschema:"the name of the note, or the name that a removed note had" op:"chars=2048,filled"`
	Change uint64 `json:"change,omitempty" jsonschema:"a number from memory_history: restore the text and the aliases after that change; if omitted, restore a removed note"`
}

var RestoreNote = Add(errtable.Store, Op[Store, Restoration, Written]{
	Name: "entries.restore", Does: "Restore a removed note, or an earlier version of a note.", Effect: Writes, Need: NeedWrite,
	Fails: []int{http.StatusConflict, http.StatusInsufficientStorage},
	Tool: &Tool{Name: "restore", Title: "Restore a note",
		Does: "Undo forget: restore the note that last had a name, with its text and aliases. With change, give a note the text and the aliases of an earlier version."},
	Did: func(_ *Restoration, w *Written) once.Effect { return w.effect() }, Again: writtenAgain,
	Run: func(ctx context.Context, s Store, in *Restoration) (Written, error) {
		if in.Change > 0 {
			return s.restoreVersion(ctx, in)
		}
		e, err := s.Get(in.Name)
		if err == nil && crmem.SameName(e.Name, in.Name) {
			return Written{}, &errtable.Error{Kind: "exists", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: s.Path(), Err: crmem.ErrExists,
				Message: display.ShownName(e.Name) + " exists", Fix: "to restore an earlier version, pass its change from memory_history"}
		}
		var removal crmem.Change // the newest one, unless it was undone
		for c, err := range s.ChangesOf(in.Name) {
			switch e := c.Entry(); {
			case err != nil: // a damaged part of the history
			case c.Type == crmem.ChangeRemove && crmem.SameName(e.Name, in.Name) && e.Kind == crmem.Note:
				removal = c
			case e.ID == removal.Before.ID:
				removal = crmem.Change{}
			}
		}
		if removal.Seq == 0 {
			return Written{}, notFound(s.Store, crmem.ErrNotFound, "crabmem list --deleted lists the removed entries", "no removed note has the name %s", display.Quoted(in.Name))
		}
		c, err := s.Store.Undo(removal.Seq, s.by()...)
		return Replaced(c.After, crmem.Entry{}), err
	},
})

// restoreVersion gives a note the text and the aliases after a change.
func (s Store) restoreVersion(ctx context.Context, in *Restoration) (Written, error) {
	return s.revise(ctx, in.Name, func(e crmem.Entry) (crmem.Update, error) {
		for c, err := range s.ChangesOfID(e.ID) {
			if err == nil && c.Seq == in.Change && c.After.ID == e.ID && c.Redacted().IsZero() {
				return crmem.Update{Content: c.After.Content, Aliases: c.After.Aliases}, nil
			}
		}
		return crmem.Update{}, noVersion(in.Change)
	})
}
