package op

import (
	"context"
	"net/http"
	"slices"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// Pins names notes to pin, or to unpin.
type Pins struct {
	Names []string `json:"names" jsonschema:"names of notes, or aliases that one note has" op:"items=1000"`
	Unpin bool     `json:"unpin,omitempty" jsonschema:"remove the pins"`
}

// Pinned is the result.
type Pinned struct {
	Pinned  bool     `json:"pinned"`
	Names   []string `json:"names" jsonschema:"of the notes"`
	Changed []string `json:"changed" jsonschema:"names of those that the request changed"`
}

// PinNotes pins all of the notes or none.
var PinNotes = Add(errtable.Store, Op[Store, Pins, Pinned]{
	Name: "entries.pin", Does: "Pin or unpin notes.", Effect: Writes, Need: NeedWrite, Retry: true,
	Path: "POST /v1/memories/pin", Fails: []int{http.StatusConflict, http.StatusInsufficientStorage},
	Tool: &Tool{Name: "pin", Title: "Pin notes",
		Does: "Pin notes, so that memory_context always shows them, or remove the pins with unpin. The texts of the notes stay the same."},
	Run: func(ctx context.Context, s Store, in *Pins) (out Pinned, err error) {
		_, err = s.Update(ctx, func(st *crmem.Store) (ops []crmem.Op, err error) {
			ops, out, err = pins(st, in)
			return ops, err
		})
		return out, err
	},
})

// pins returns the operations that pin notes, and the result.
func pins(s *crmem.Store, in *Pins) (ops []crmem.Op, out Pinned, err error) {
	out = Pinned{!in.Unpin, []string{}, []string{}}
	for _, name := range in.Names {
		e, err := FindEntry(s, name)
		if err != nil {
			return nil, out, err
		}
		if e.Kind != crmem.Note {
			return nil, out, isArchive(s, name, "remember its subject as a note, then pin the note")
		}
		if slices.Contains(out.Names, e.Name) {
			continue
		}
		out.Names = append(out.Names, e.Name)
		m, _, _ := metadata.Parse(e.Content)
		if m.Pinned() == out.Pinned {
			continue
		}
		content := metadata.Remove(e.Content, metadata.Pinned)
		if out.Pinned {
			if content, err = metadata.Set(e.Content, metadata.Field{Key: metadata.Pinned, Values: []string{"true"}}); err != nil {
				return nil, out, errtable.Invalidf("%s: %v", display.Quoted(name), err)
			}
		}
		ops = append(ops, crmem.Update{Name: e.Name, Content: content, Aliases: e.Aliases})
		out.Changed = append(out.Changed, e.Name)
	}
	return ops, out, nil
}
