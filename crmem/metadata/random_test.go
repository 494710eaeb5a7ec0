package metadata

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"crabmem/crmem/metadata/metatest"
)

// sameAsYAML checks that a YAML parser reads the same fields.
func sameAsYAML(t *testing.T, content string, m *Metadata) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(content[len("---")+len(m.eol):m.end]), &doc); err != nil {
		t.Fatalf("%q is front matter but not YAML: %v", content, err)
	}
	var got []Field
	if len(doc.Content) > 0 {
		for i, list := 0, doc.Content[0].Content; i+1 < len(list); i += 2 {
			f := Field{Key: list[i].Value}
			switch v := list[i+1]; {
			case v.Kind == yaml.SequenceNode:
				f.List = true
				for _, item := range v.Content {
					if item.Kind != yaml.ScalarNode {
						t.Fatalf("%q: YAML has an item of kind %v", content, item.Kind)
					}
					f.Values = append(f.Values, item.Value)
				}
			case v.Kind != yaml.ScalarNode:
				t.Fatalf("%q: YAML has a value of kind %v", content, v.Kind)
			case v.Tag != "!!null" || v.Value != "":
				f.Values = []string{v.Value}
			}
			got = append(got, f)
		}
	}
	if !slices.EqualFunc(got, m.fields, func(a, b Field) bool {
		return a.Key == b.Key && a.List == b.List && slices.Equal(a.Values, b.Values)
	}) {
		t.Fatalf("%q: YAML reads %+v, Parse %+v", content, got, m.fields)
	}
}

// checkContent checks Parse, Set, and Remove with a content and a field.
func checkContent(t *testing.T, content string, f Field) {
	checkPlaces(t, content)
	t.Helper()
	m, body, ok := Parse(content)
	if !ok && body != 0 || body > MaxBytes || len(m.fields) > MaxKeys {
		t.Fatalf("%q: body %d, %d fields, %v", content, body, len(m.fields), ok)
	}
	if ok {
		sameAsYAML(t, content, &m)
		for i, old := range m.fields {
			without := Remove(content, old.Key)
			if rest := m.others(content, i); without != rest && without != content[body:] {
				t.Fatalf("%q without %s: %q", content, old.Key, without)
			}
			after, _, still := Parse(without)
			if still != (without != content[body:]) || still && len(after.fields) != len(m.fields)-1 {
				t.Fatalf("%q without %s: %q has %d fields", content, old.Key, without, len(after.fields))
			}
		}
	}
	set, err := Set(content, f)
	if err != nil {
		return
	}
	after, end, has := Parse(set)
	if len(f.Values) == 0 {
		if after.Values(f.Key) != nil && after.Values(f.Key)[0] != "" && ok {
			t.Fatalf("%q without %s: %q", content, f.Key, set)
		}
		return
	}
	if !has || !slices.Equal(after.Values(f.Key), f.Values) || set[end:] != content[body:] {
		t.Fatalf("%q with %+v: %q", content, f, set)
	}
	sameAsYAML(t, set, &after)
	i := slices.IndexFunc(after.fields, func(g Field) bool { return g.Key == f.Key })
	before := slices.IndexFunc(m.fields, func(g Field) bool { return g.Key == f.Key })
	rest := content
	if before >= 0 {
		rest = m.others(content, before)
	}
	if ok && after.others(set, i) != rest {
		t.Fatalf("%q with %+v: %q changes other bytes", content, f, set)
	}
	if again, err := Set(set, f); again != set || err != nil {
		t.Fatalf("%q with %+v again: %q, %v", set, f, again, err)
	}
	if back := Remove(set, f.Key); !ok && back != content && !strings.HasPrefix(content, "---") {
		t.Fatalf("%q with and without %+v: %q", content, f, back)
	}
}

// others returns a content without the lines of field i.
func (m *Metadata) others(content string, i int) string {
	return content[:m.spans[i].from] + content[m.spans[i].to:]
}

// TestRandom changes 10,000 random front matters, valid and broken.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	valid, broken := 0, 0
	for range 10_000 {
		content := metatest.Front(rng)
		f := Field{Key: []string{"type", "a", "my key", "new"}[rng.IntN(4)], List: rng.IntN(2) == 0}
		for range rng.IntN(3) {
			var b strings.Builder
			for range rng.IntN(4) {
				b.WriteString(metatest.Pieces[rng.IntN(len(metatest.Pieces))])
			}
			if f.Values = append(f.Values, b.String()); !f.List {
				break
			}
		}
		checkContent(t, content, f)
		if _, _, ok := Parse(content); ok {
			valid++
		} else {
			broken++
		}
	}
	if valid < 3000 || broken < 2000 {
		t.Errorf("%d valid and %d broken", valid, broken)
	}
	t.Logf("front matter: %d valid, %d broken", valid, broken)
}

// checkPlaces checks the lines of links and problems.
func checkPlaces(t *testing.T, content string) {
	t.Helper()
	lines := strings.Split(content, "\n")
	m, body, ok := Parse(content)
	front := strings.Count(content[:body], "\n")
	for _, p := range Places(content) {
		if p.Line < 1 || p.Line > len(lines) || p.Line > front && !strings.Contains(lines[p.Line-1], p.Target) {
			t.Fatalf("%q: link %+v", content, p)
		}
	}
	for _, p := range Check(content) {
		if p.Line < 1 || p.Line > len(lines) || p.Message == "" || (p.Key == "") == ok || ok && p.Line != m.Line(p.Key) {
			t.Fatalf("%q: problem %+v", content, p)
		}
	}
}

func FuzzMetadata(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(metatest.Front(rng), "tags", "a\nb", true)
	}
	f.Add("---\n"+strings.Repeat("- ", MaxBytes), "k", "", false)
	f.Add("a `[[b]]` ```` [[c]] ``` [[d|e]]\n```\n[[f]]\n```", "related", "[[n]]", false)
	f.Fuzz(func(t *testing.T, content, key, value string, list bool) {
		checkContent(t, content, Field{Key: key, Values: []string{value}, List: list})
		checkContent(t, content, Field{Key: key})
		for _, l := range Links(content) {
			if l.Target == "" || !slices.Contains(Relations, l.Relation) || !strings.Contains(content, "[[") {
				t.Fatalf("%q: link %q", content, l)
			}
		}
	})
}
