package crmem

import (
	"slices"
	"testing"
)

// TestPresentProject: hits of the present project come first among equals, and no other
// hit is lost, with each limit.
func TestPresentProject(t *testing.T) {
	s := New(nil)
	defer s.Close()
	front := func(project string) string { return "---\nproject: " + project + "\n---\n" }
	for _, c := range [][2]string{{"a1", front("web") + "canary release"}, {"a2", front("api") + "canary release"}, {"a3", front("Shop") + "canary release"},
		{"a4", front("web") + "canary canary canary"}, {"a5", front("shop") + "green tea"}} {
		if _, err := s.Remember(c[0], c[1], nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		project string
		want    []string
	}{
		{"", []string{"a4", "a1", "a2", "a3"}}, {"shop", []string{"a4", "a3", "a1", "a2"}}, {"api", []string{"a4", "a2", "a1", "a3"}}, {"absent", []string{"a4", "a1", "a2", "a3"}},
	} {
		for limit := range 5 {
			r, err := s.Search(t.Context(), Query{Text: "canary", Limit: limit, Project: c.project})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range r.Hits {
				got = append(got, h.Name)
			}
			want := c.want
			if limit > 0 {
				want = want[:limit]
			}
			if !slices.Equal(got, want) {
				t.Errorf("project %q, limit %d: %q, want %q", c.project, limit, got, want)
			}
		}
	}
}
