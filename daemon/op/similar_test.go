package op

import (
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
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

func TestNearestName(t *testing.T) {
	names := []string{"limit", "kind", "max_bytes", "offset"}
	for mistyped, want := range map[string]string{
		"limits": "limit", "LIMIT": "limit", "limti": "limit", "maxBytes": "max_bytes", "kinds": "kind", "offest": "offset",
		"": "", "_": "", "id": "", "type": "", "name": "", "explanation": "", "random_string": "", strings.Repeat("limit", 1000): "",
	} {
		if got := NearestName(mistyped, names); got != want {
			t.Errorf("%.20q: %q, want %q", mistyped, got, want)
		}
	}
	for mistyped, want := range map[string]string{"kinxs": "kinds", "kixxs": "kinds", "kxxxs": "", "kings": "kings", "xings": "kings"} {
		if got := NearestName(mistyped, []string{"kinds", "kings"}); got != want {
			t.Errorf("%q of two names: %q, want %q", mistyped, got, want)
		}
	}
	long := strings.Repeat("n", 1024)
	for mistyped, want := range map[string]string{"": "", "x": "x", "abcxyz": "abcdef", "abwxyz": "", long: long, long + "n": ""} {
		if got := NearestName(mistyped, []string{"x", "abcdef", long}); got != want {
			t.Errorf("%.20q: %.20q, want %.20q", mistyped, got, want)
		}
	}
	if got := NearestName("limit", nil); got != "" {
		t.Errorf("without names: %q", got)
	}
}

func TestNearNames(t *testing.T) {
	s := crmem.New(nil)
	for _, e := range []crmem.Add{{Name: "deploy", Aliases: []string{"ship it"}}, {Name: "deploy-steps"}, {Name: "Deploys"}, {Name: "tea"}, {Name: "x"}, {Name: "note-1"}, {Name: "note-2"}, {Name: "note-3"}, {Name: "note-4"}, {Name: "", Aliases: nil}} {
		if err := s.Apply(crmem.Restore{Entry: crmem.Entry{Name: e.Name, Aliases: e.Aliases}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"deplyo": "deploy Deploys", "DEPLOY": "deploy Deploys deploy-steps", "deploy steps": "deploy-steps", "shipit": "deploy", "steps": "deploy-steps",
		"note-9": "note-1 note-2 note-3", "te": "tea", "tae": "tea", "y": "", "X": "x", "zeppelin": "", "": "", "\x00": "", strings.Repeat("deploy", 1000): "",
	} {
		if got := strings.Join(nearNames(s, name), " "); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
}

// TestSimilarTexts checks which texts a new note repeats, by words and by meaning.
func TestSimilarTexts(t *testing.T) {
	model, _ := embedtest.New("car automobile", "fast quick")
	s := crmem.New(&crmem.Options{Embed: model})
	const text = "The deploy of the shop runs at nine on Monday, and Dana watches the graphs for an hour."
	for name, content := range map[string]string{
		"release": "---\ntype: decision\n---\n" + text, "ride": "a fast car", "short": "at nine", "other": "The shop sells tea at nine on Monday.",
	} {
		if err := s.Apply(crmem.Add{Name: name, Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.EmbedAll(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string][]string{
		text: {"release"}, strings.Replace(text, "Dana", "Lee", 1): {"release"}, text[:40]: nil, "at nine": nil,
		"a quick automobile": {"ride"}, "a slow train": nil,
	} {
		w, err := Remember.Do(t.Context(), Store{Store: s, Semantic: &fusion.Request{}}, Note{Remember: crmem.Remember{Name: "new", Content: content}, Similar: true})
		if err != nil || !slices.Equal(w.Similar, want) {
			t.Errorf("%q is like %q (error %v), want %q", content, w.Similar, err, want)
		}
		if err := s.Forget("new"); err != nil {
			t.Fatal(err)
		}
	}
}
