package op

import (
	"strconv"

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
}

// Edit returns the change of the metadata of the note. A note keeps the metadata of
// missing arguments; an empty text or an empty list removes its key.
func (a *MetadataArgs) Edit() (*metadata.Edit, error) {
	var importance []string
	if a.Importance != nil {
		importance = []string{strconv.FormatFloat(*a.Importance, 'g', -1, 64)}
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
