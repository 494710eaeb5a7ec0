package crmem

import (
	"slices"

	"crabmem/crmem/metadata"
)

// Remember creates a note as [Add] does, or replaces it as [Update] does: the note of
// the name, or else the only one with a canonically equivalent name. If the entry is an
// archive, the error is [ErrKind].
type Remember struct {
	Name    string   `json:"name"`
	Content string   `json:"content"`
	Aliases []string `json:"aliases,omitzero"` // nil keeps the present aliases
	// Metadata, if set, is applied to Content and the content of the note at the time
	// of the write, see [metadata.Edit.Apply]. If nil, Content is stored unchanged.
	Metadata *metadata.Edit `json:"metadata,omitempty"`
}

// Validate implements [Op].
func (o Remember) Validate() error {
	if o.Metadata != nil {
		if err := o.Metadata.Validate(); err != nil {
			return &nameError{ErrInvalid, cutName(o.Name), err.Error()}
		}
	}
	return validEntry(o.Name, o.Content, o.Aliases)
}

func (o Remember) stage(g *stage) error {
	name, old, err := g.find(o.Name)
	if err != nil {
		return err
	}
	if old != "" && Kind(old.Kind()) != Note {
		return &nameError{ErrKind, o.Name, "it is an archive; remember changes only notes: choose another name"}
	}
	o.Name = name
	content, aliases := "", o.Aliases
	if old != "" {
		content, _ = old.Content()
		if aliases == nil {
			aliases = old.Aliases()
		}
	}
	content, err = o.ContentFor(content)
	if err != nil {
		return err
	}
	if old == "" {
		return Add{o.Name, content, aliases, Note}.stage(g)
	}
	return Update{o.Name, content, aliases}.stage(g)
}

// ContentFor returns the content that the operation stores. old is the present content
// of the note, or "" if there is no note.
func (o *Remember) ContentFor(old string) (string, error) {
	if o.Metadata == nil {
		return o.Content, nil
	}
	content, err := o.Metadata.Apply(old, o.Content)
	if err != nil {
		return "", &nameError{ErrInvalid, cutName(o.Name), err.Error()}
	}
	return content, validEntry(o.Name, content, nil)
}

// Remember adds a Note, or replaces the content of the note with the name.
// aliases replaces the old aliases; nil keeps them. It returns [ErrKind] if the
// name is that of an Archive.
func (s *Store) Remember(name, content string, aliases []string) (Entry, error) {
	e, _, err := s.Overwrite(Remember{Name: name, Content: content, Aliases: aliases})
	return e, err
}

// Overwrite applies an operation and returns the note after and before the change. If
// Overwrite created the note, before.ID is 0. first are operations of the same
// batch that change no entry: conditions, or an actor.
func (s *Store) Overwrite(o Remember, first ...Op) (after, before Entry, err error) {
	effects, err := s.apply(append(slices.Clip(first), o))
	if err != nil {
		return Entry{}, Entry{}, err
	}
	if old := effects[0].old; old != "" {
		before = entryOf(old)
	}
	return entryOf(effects[0].rec), before, nil
}
