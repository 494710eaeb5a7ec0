package memtool

import (
	"slices"
	"testing"

	"crabmem/crmem"
)

func TestSimilarNames(t *testing.T) {
	s := crmem.New(nil)
	for _, e := range []crmem.Add{
		{Name: "deploy-steps"}, {Name: "note-001"}, {Name: "tea"}, {Name: "release", Aliases: []string{"ship it"}}, {Name: "日本語"}, {Name: "---"}, {Name: "chat-2026-01", Kind: crmem.Archive},
		{Name: "the long name of something important"},
	} {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]string{
		"Deploy Steps": {"deploy-steps"}, "deploysteps": {"deploy-steps"}, "deploy-step": {"deploy-steps"}, "depoly-steps": {"deploy-steps"}, "deploy": nil,
		"note-002": nil, "NOTE 001": {"note-001"}, "tee": nil, "Tea": {"tea"}, "ship it": {"release"}, "Ship-It": {"release"}, "shipit!": {"release"},
		"日本語!": {"日本語"}, "日本人": nil, "***": nil, "chat-2026-02": nil, "chat 2026 01": {"chat-2026-01"}, "the long nome of somthing important": {"the long name of something important"},
		"": nil, "tea ": {"tea"},
	} {
		if got := similarNames(s, name); !slices.Equal(got, want) {
			t.Errorf("%q is like %q, want %q", name, got, want)
		}
	}
}
