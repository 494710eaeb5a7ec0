package op

import (
	"context"
	"slices"
	"strconv"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/errtable"
)

// MetadataArgs are the arguments for metadata of the tools that write a note: those of
// agents and of the MCP server. An empty list is encoded, because
// a missing one has another meaning.
type MetadataArgs struct {
	Type        *string  `json:"type,omitempty" jsonschema:"fact, preference, decision, identity, event, observation, goal, todo, or another word; an empty text removes the type"`
	Tags        []string `json:"tags,omitzero" jsonschema:"words to filter notes by; they replace the tags of the note; an empty list removes them" op:"filled"`
	Importance  *float64 `json:"importance,omitempty" jsonschema:"from 0 to 1"`
	Expires     *string  `json:"expires,omitempty" jsonschema:"the last day on which the note is valid, such as 2026-04-14; later it ranks last; an empty text removes the day"`
	Supersedes  []string `json:"supersedes,omitzero" jsonschema:"names of entries that this note replaces; they rank after it; an empty list removes them" op:"filled"`
	Related     []string `json:"related,omitzero" jsonschema:"names of entries about related subjects; an empty list removes them" op:"filled"`
	Contradicts []string `json:"contradicts,omitzero" jsonschema:"names of entries that this note contradicts; an empty list removes them" op:"filled"`
	CausedBy    []string `json:"caused_by,omitzero" jsonschema:"names of entries about the causes; an empty list removes them" op:"filled"`
	PartOf      []string `json:"part_of,omitzero" jsonschema:"names of entries about the larger subject; an empty list removes them" op:"filled"`

	Conversation *string `json:"conversation,omitempty" jsonschema:"the conversation of which the note is a message"`
	Position     *uint64 `json:"position,omitempty" jsonschema:"its place there; default: after the last message"`
	Role         *string `json:"role,omitempty" jsonschema:"its author, such as user or assistant"`
	Date         *string `json:"date,omitempty" jsonschema:"its day, such as 2026-04-14"`
}

// Edit returns the change of the metadata of the note. A note keeps the metadata of
// missing arguments; an empty text or an empty list removes its key.
func (a *MetadataArgs) Edit() (*metadata.Edit, error) {
	var importance, position []string
	if a.Importance != nil {
		importance = []string{strconv.FormatFloat(*a.Importance, 'g', -1, 64)}
	}
	if a.Position != nil {
		position = []string{strconv.FormatUint(*a.Position, 10)}
	}
	word := func(s *string) []string {
		if s == nil {
			return nil
		}
		return []string{*s}
	}
	e := &metadata.Edit{}
	for _, arg := range []struct {
		key    string
		values []string
	}{
		{metadata.Type, word(a.Type)}, {metadata.Tags, a.Tags}, {metadata.Importance, importance}, {metadata.Expires, word(a.Expires)},
		{metadata.Related, a.Related}, {metadata.Supersedes, a.Supersedes}, {metadata.Contradicts, a.Contradicts}, {metadata.CausedBy, a.CausedBy}, {metadata.PartOf, a.PartOf},
		{metadata.Conversation, word(a.Conversation)}, {metadata.Position, position}, {metadata.Role, word(a.Role)}, {metadata.Date, word(a.Date)},
	} {
		if arg.values == nil {
			continue
		}
		f, err := metadata.NewField(arg.key, arg.values...)
		if err != nil {
			return nil, errtable.Invalidf("%v", err)
		}
		e.Set = append(e.Set, f)
	}
	if err := e.Validate(); err != nil {
		return nil, errtable.Invalidf("%v", err)
	}
	return e, nil
}

// ProjectField returns a project's metadata for a new note; nil for "".
func ProjectField(name string) []metadata.Field {
	if name == "" {
		return nil
	}
	return []metadata.Field{{Key: metadata.Project, Values: []string{name}}}
}

// place sets the position of a message without one: after the last message of its
// conversation. Messages with one position rank in the order in which they were created.
func (s Store) place(ctx context.Context, o *crmem.Remember) error {
	if o.Metadata == nil {
		return nil
	}
	set := o.Metadata.Set
	at := slices.IndexFunc(set, func(f metadata.Field) bool { return f.Key == metadata.Conversation && len(f.Values) == 1 })
	if at < 0 || slices.ContainsFunc(set, func(f metadata.Field) bool { return f.Key == metadata.Position }) {
		return nil
	}
	n, err := s.NextPosition(ctx, set[at].Values[0], o.Name)
	if err != nil {
		return err
	}
	position := metadata.Field{Key: metadata.Position, Values: []string{strconv.FormatUint(n, 10)}}
	o.Metadata = &metadata.Edit{Set: append(slices.Clip(set), position), Drop: o.Metadata.Drop, New: o.Metadata.New}
	return nil
}
