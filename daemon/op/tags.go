package op

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// TagCount is a tag, and the number of entries that have it.
type TagCount struct {
	Tag     string `json:"tag"`
	Entries int    `json:"entries"`
}

// TagCounts are a store's tags.
type TagCounts struct {
	Tags []TagCount `json:"tags" jsonschema:"the most used first"`
}

var ListTags = Add(errtable.Store, Op[Store, None, TagCounts]{
	Name: "entries.tags", Does: "List the tags of entries, and how many entries have each.", Effect: Reads, Need: NeedRead, Path: "GET /v1/tags",
	Run:     func(_ context.Context, s Store, _ *None) (TagCounts, error) { return tagCounts(s.Store), nil },
	NoStore: func() TagCounts { return TagCounts{[]TagCount{}} },
})

// tagCounts counts tags. Case does not count; the first entry's form is shown.
func tagCounts(s *crmem.Store) TagCounts {
	out := TagCounts{[]TagCount{}}
	index := make(map[string]int)
	for e := range s.All() {
		m, _, _ := metadata.Parse(e.Content)
		for _, tag := range distinctTags(m.Tags()) {
			key := strings.ToLower(tag)
			at, ok := index[key]
			if !ok {
				at = len(out.Tags)
				index[key] = at
				out.Tags = append(out.Tags, TagCount{Tag: tag})
			}
			out.Tags[at].Entries++
		}
	}
	slices.SortFunc(out.Tags, func(a, b TagCount) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), strings.Compare(a.Tag, b.Tag))
	})
	return out
}

// distinctTags removes repeated tags. Case does not count.
func distinctTags(tags []string) []string {
	list := []string{}
	for _, tag := range tags {
		if !hasTag(list, tag) {
			list = append(list, tag)
		}
	}
	return list
}

func hasTag(tags []string, tag string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return strings.EqualFold(t, tag) })
}

// TagChange changes a note's tags.
type TagChange struct {
	Name   string   `json:"name" jsonschema:"name of a note, or an alias that one note has" op:"chars=2048,filled"`
	Add    []string `json:"add,omitempty" jsonschema:"tags to add" op:"items=1000,filled"`
	Remove []string `json:"remove,omitempty" jsonschema:"tags to remove" op:"items=1000,filled"`
}

// Tagged is the result.
type Tagged struct {
	Name    string   `json:"name" jsonschema:"of the note"`
	Tags    []string `json:"tags" jsonschema:"of the note after the change"`
	Changed bool     `json:"changed" jsonschema:"the request changed the note"`
}

// TagNote changes a note's tags. Its other bytes stay the same.
var TagNote = Add(errtable.Store, Op[Store, TagChange, Tagged]{
	Name: "entries.tag", Does: "Add tags to a note, or remove some.", Effect: Writes, Need: NeedWrite, Retry: true,
	Path: "POST /v1/memories/tag", Fails: []int{http.StatusConflict, http.StatusInsufficientStorage},
	Run: func(ctx context.Context, s Store, in *TagChange) (out Tagged, err error) {
		_, err = s.Update(ctx, func(st *crmem.Store) (ops []crmem.Op, err error) {
			ops, out, err = in.plan(st)
			return ops, err
		})
		return out, err
	},
})

// plan returns the operation that changes the tags, if one changes, and the result.
func (in *TagChange) plan(s *crmem.Store) ([]crmem.Op, Tagged, error) {
	e, err := FindEntry(s, in.Name)
	if err != nil {
		return nil, Tagged{}, err
	}
	if e.Kind != crmem.Note {
		return nil, Tagged{}, isArchive(s, in.Name, "remember its subject as a note, then tag the note")
	}
	invalid := func(format string, args ...any) error {
		return &errtable.Error{Kind: "invalid", HTTP: http.StatusBadRequest, Exit: errtable.ExitUsage, Err: crmem.ErrInvalid,
			Message: display.Quoted(e.Name) + ": " + fmt.Sprintf(format, args...)}
	}
	add, err := metadata.NewField(metadata.Tags, in.Add...)
	if err != nil {
		return nil, Tagged{}, invalid("%v", err)
	}
	remove, err := metadata.NewField(metadata.Tags, in.Remove...)
	if err != nil {
		return nil, Tagged{}, invalid("%v", err)
	}
	m, _, readable := metadata.Parse(e.Content)
	if problems := metadata.Check(e.Content); !readable && len(problems) > 0 {
		return nil, Tagged{}, invalid("line %d: crabmem cannot change this front matter: %s", problems[0].Line, problems[0].Message)
	}
	before := distinctTags(m.Tags())
	tags := slices.DeleteFunc(distinctTags(slices.Concat(before, add.Values)), func(t string) bool { return hasTag(remove.Values, t) })
	out := Tagged{Name: e.Name, Tags: tags, Changed: !slices.Equal(before, tags)}
	if !out.Changed {
		return nil, out, nil
	}
	content, err := metadata.Set(e.Content, metadata.Field{Key: metadata.Tags, Values: tags, List: len(tags) > 0})
	if err != nil {
		return nil, out, invalid("%v", err)
	}
	return []crmem.Op{crmem.Update{Name: e.Name, Content: content, Aliases: e.Aliases}}, out, nil
}
