package crmem

import (
	"slices"
	"strings"

	"crabmem/crmem/metadata"
)

// Filter selects entries. The zero value selects all. It compares words of metadata
// without regard to case.
type Filter struct {
	Type   string           // of the metadata; empty: any
	Tags   []string         // the entry has all of them
	Fields []metadata.Field // the entry has these values, and perhaps others of these keys
	// After and Before limit CreatedAt, in unix seconds: at or after, and before. 0 is
	// no limit.
	After, Before uint64
}

func (f *Filter) empty() bool {
	return f.Type == "" && len(f.Tags)+len(f.Fields) == 0 && f.After == 0 && f.Before == 0
}

// Selects reports whether the filter selects an entry.
func (f *Filter) Selects(createdAt uint64, content string) bool {
	if createdAt < f.After || f.Before > 0 && createdAt >= f.Before {
		return false
	}
	if f.Type == "" && len(f.Tags)+len(f.Fields) == 0 {
		return true
	}
	m, _, ok := metadata.Parse(content)
	if !ok || f.Type != "" && !strings.EqualFold(f.Type, m.Type()) || !containsAll(m.Tags(), f.Tags) {
		return false
	}
	return !slices.ContainsFunc(f.Fields, func(want metadata.Field) bool { return !containsAll(m.Values(want.Key), want.Values) })
}

func containsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool {
		return !slices.ContainsFunc(have, func(h string) bool { return strings.EqualFold(h, w) })
	})
}
