package op

import (
	"context"
	"errors"
	"net/http"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// NoteArgs is a note to create or to replace, with its metadata.
type NoteArgs struct {
	Name    string   `json:"name" jsonschema:"a short name for the subject of the note, such as deploy-steps" op:"chars=1024,filled"`
	Content string   `json:"content" jsonschema:"the text of the note, in Markdown"`
	Aliases []string `json:"aliases,omitzero" jsonschema:"other names of the note; if omitted, the note keeps its aliases" op:"items=64,filled"`
	Version uint64   `json:"if_version,omitempty" jsonschema:"replace the note only if this is its newest version in memory_history"`
	MetadataArgs
	Present string `json:"present,omitempty" op:"owner"` // the project of a new note
}

var SaveNote = Add(errtable.Store, Op[Store, NoteArgs, Written]{
	Name: "entries.note", Does: "Create or replace a note with its metadata.", Effect: Writes, Need: NeedWrite,
	Fails: writeFails,
	Tool: &Tool{Name: "remember", Title: "Remember a note", Idempotent: true,
		Does: "Save a note for later conversations. The note is on disk when the tool returns. An existing note with this name is replaced, including its text: " +
			"to extend a note, use append or edit. Use one note per subject, with a short name that states the subject. " +
			"A note keeps the metadata that the call does not set, such as type and tags."},
	Run: func(ctx context.Context, s Store, in *NoteArgs) (w Written, err error) {
		edit, err := in.Edit()
		if err != nil {
			return w, err
		}
		edit.New = ProjectField(in.Present)
		o := crmem.Remember{Name: in.Name, Content: in.Content, Aliases: in.Aliases, Metadata: edit}
		if in.Version > 0 {
			w, err = Replace.Do(ctx, s, Replacement{o, Expected{Version: in.Version}})
		} else {
			w, err = Remember.Do(ctx, s, Note{Remember: o, Similar: true})
		}
		if errors.Is(err, crmem.ErrKind) {
			err = &errtable.Error{HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Kind: "kind", Err: err, Fix: "choose another name",
				Message: display.ShownName(in.Name) + " is the archive of a conversation; remember never overwrites archives"}
		}
		return w, err
	},
})

// Clip removes from the result of a write what a model does not need.
func (w *Written) Clip() {
	w.Content, w.Aliases = nil, firstAliases(w.Aliases)
	for i := range w.Similar {
		w.Similar[i] = clippedName(w.Similar[i])
	}
}
