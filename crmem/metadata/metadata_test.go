package metadata

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const text = "---\r\n# a comment\r\ntype: decision # why\r\ntags:\r\n  - release\r\n\r\n  - 'it''s'\r\n  - b, c\r\nimportance: 0.8\r\n" +
		"supersedes: \"[[deploy-v1]]\"\r\nempty:\r\nlist: [a, \"b, c\" , 'd',]\r\nm/y key: a:b #c\r\nescapes: \"\\x41\\u00e4\\U0001F600\\n\"\r\n---\r\nbody\r\n"
	m, body, ok := Parse(text)
	if !ok || text[body:] != "body\r\n" {
		t.Fatalf("%v, body %q", ok, text[body:])
	}
	want := []Field{
		{"type", []string{"decision"}, false}, {"tags", []string{"release", "it's", "b, c"}, true}, {"importance", []string{"0.8"}, false},
		{"supersedes", []string{"[[deploy-v1]]"}, false}, {"empty", nil, false}, {"list", []string{"a", "b, c", "d"}, true}, {"m/y key", []string{"a:b"}, false},
		{"escapes", []string{"Aä😀\n"}, false},
	}
	if got := m.Fields(); !slices.EqualFunc(got, want, func(a, b Field) bool {
		return a.Key == b.Key && a.List == b.List && slices.Equal(a.Values, b.Values)
	}) {
		t.Errorf("fields %+v, want %+v", got, want)
	}
	if m.Type() != "decision" || !slices.Equal(m.Tags(), []string{"release", "it's", "b, c"}) || m.Importance() != 0.8 || m.Adopted() {
		t.Errorf("type %q, tags %q, importance %v, adopted %v", m.Type(), m.Tags(), m.Importance(), m.Adopted())
	}
}

// TestNotFrontMatter checks contents that have no metadata.
func TestNotFrontMatter(t *testing.T) {
	for _, front := range []string{
		"a: b\n--- \n", "a: b\n", "a: b\n----\n", "a: b\n...\n---\n", "a: b\na: c\n---\n", "a: &x b\n---\n", "a: *x\n---\n", "a: !!str b\n---\n",
		"a: {b: c}\n---\n", "a:\n  b: c\n---\n", "a: [[b]]\n---\n", "a: [b, [c]]\n---\n", "a:\n- - b\n---\n", "a: |\n  b\n---\n", "a: >\n  b\n---\n",
		"a: b\n  c\n---\n", "a: b\n c: d\n---\n", "a:\n- \n---\n", ".a: b\n---\n", "a: \"\\\n---\n", "a: \"\\x4\n---\n", "a: b: c\n---\n", "a: b:\n---\n", "a: 'b\n---\n", "a: \"b\n---\n", "a: \"\\q\"\n---\n", "a: \"b\"c\n---\n", "a: \"b\"#c\n---\n",
		"a: [b\n---\n", "a: [b] c\n---\n", "a: [b,,c]\n---\n", "a: [,]\n---\n", "- a\n---\n", "a: b\n- c\n---\n", "a:\n- b\n  - c\n---\n", "a:\n-\n---\n",
		"a\tb: c\n---\n", "a:\tb\n---\n", "a: b\tc\n---\n", "a:b\n---\n", "a : b\n---\n", "\"a\": b\n---\n", "? a\n---\n", "<<: b\n---\n", "%a: b\n---\n",
		"a: %b\n---\n", "a: @b\n---\n", "a: `b\n---\n", "a: ?b\n---\n", "a: :b\n---\n", "a: b\x00\n---\n", "a: b\x1fc\n---\n", "a: b\x7fc\n---\n", "a: b\u009fc\n---\n", "a: \xff\n---\n", "a: b\u0085\n---\n",
		"a: b\u2028\n---\n", "a: b\ufeff\n---\n", "a: b\rc: d\n---\n", "a: \"\\ud800\"\n---\n", "a: \"\\U00110000\"\n---\n", "text\n---\n", "a: -\n---\n",
		"a: " + strings.Repeat("x", MaxBytes) + "\n---\n", keys(MaxKeys+1) + "---\n", strings.Repeat("k", maxKey+1) + ": b\n---\n",
	} {
		for _, text := range []string{"---\n" + front + "body", "\ufeff---\n" + front, " ---\n" + front} {
			if m, body, ok := Parse(text); ok || body != 0 || m.Fields() != nil || Text(text) != text {
				t.Errorf("%.80q: body %d, %v", text, body, m.Fields())
			}
		}
	}
	for _, r := range " ~\u00a0\u2027\u202a\ufffd" {
		if _, _, ok := Parse("---\na: b" + string(r) + "c\n---\n"); !ok {
			t.Errorf("%U is not printable", r)
		}
	}
	for _, text := range []string{"", "-", "---", "---\n", "---\r", "---\r\n", "--- \na: b\n---\n", "---a: b\n---\n"} {
		if _, _, ok := Parse(text); ok {
			t.Errorf("%q is front matter", text)
		}
	}
}

// keys returns n lines with a key each.
func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v\n", i)
	}
	return b.String()
}

// TestLimits checks front matter of the largest size and number of keys.
func TestLimits(t *testing.T) {
	longest := "---\n" + strings.Repeat("k", maxKey) + ": v\n---\n"
	if m, _, _ := Parse(longest); len(m.Fields()) != 1 {
		t.Errorf("a key of %d bytes: %v", maxKey, m.Fields())
	}
	largest := "---\na: " + strings.Repeat("x", MaxBytes-len("---\na: \n---\n")) + "\n---\n"
	most := "---\n" + keys(MaxKeys) + "---\n"
	for _, text := range []string{largest, most} {
		if _, body, ok := Parse(text + "body"); !ok || body != len(text) {
			t.Errorf("%d bytes: body %d, %v", len(text), body, ok)
		}
		if got, err := Set(text, Field{Key: "new", Values: []string{"v"}}); err == nil {
			t.Errorf("set beyond the limit: %d bytes", len(got))
		}
	}
	if _, err := Set(largest, Field{Key: "a", Values: []string{"v"}}); err != nil {
		t.Error(err)
	}
	const invalid = "invalid metadata: "
	for want, f := range map[string]Field{
		`key "": use letters, digits, spaces, and _-./`:       {},
		`key "a:b": use letters, digits, spaces, and _-./`:    {Key: "a:b"},
		"a: 2 values, at most one":                            {Key: "a", Values: []string{"b", "c"}},
		"a: the value is not UTF-8":                           {Key: "a", Values: []string{"\xff"}},
		"the front matter would exceed 4096 bytes or 64 keys": {Key: "a", Values: []string{strings.Repeat("x", MaxBytes)}},
	} {
		if got, err := Set("text", f); err == nil || err.Error() != invalid+want {
			t.Errorf("%+v: %q, %v", f, got, err)
		}
		if err := (&Edit{Set: []Field{f}}).Validate(); err == nil || err.Error() != invalid+want {
			t.Errorf("%+v is valid: %v", f, err)
		}
	}
}

func TestSet(t *testing.T) {
	tags := Field{Tags, []string{"release", "true", "a, b"}, true}
	for _, row := range []struct {
		content string
		fields  []Field
		want    string
	}{
		{"text", []Field{tags, {Key: Type, Values: []string{"decision"}}}, "---\ntype: decision\ntags: [release, \"true\", \"a, b\"]\n---\ntext"},
		{"a\nb\r\n", []Field{{Key: "x", Values: []string{"1"}}}, "---\nx: 1\n---\na\nb\r\n"},
		{"", []Field{{Key: Adopted, Values: []string{"1"}}, {Key: "x", Values: []string{"\r\t\ue000"}}, {Key: PartOf, Values: []string{"[[b]]"}}, {Key: Related, Values: []string{"[[a]]"}}},
			"---\nrelated: \"[[a]]\"\npart_of: \"[[b]]\"\nx: \"\\r\\t\\U0000e000\"\ncrabmem: 1\n---\n"},
		{"text\r\n", []Field{{Key: "x", Values: []string{"1"}}}, "---\r\nx: 1\r\n---\r\ntext\r\n"},
		{"---\nb:  'x'  # c\ntags:\n- release\n# d\n---", []Field{{Key: "a", Values: []string{"[[n]]"}}, tags},
			"---\nb:  'x'  # c\ntags: [release, \"true\", \"a, b\"]\n# d\na: \"[[n]]\"\n---"},
		{"---\na:   1\n---\n", []Field{{Key: "a", Values: []string{"1"}}}, "---\na:   1\n---\n"},
		{"---\na: 1\nb: 2\n---\nx", []Field{{Key: "a"}}, "---\nb: 2\n---\nx"},
		{"---\na: 1\n\n---\nx", []Field{{Key: "a"}}, "x"},
		{"---\n# c\na: 1\n---\nx", []Field{{Key: "a"}}, "---\n# c\n---\nx"},
		{"---\na: 1\n---\n---\nb: 2\n---\n", []Field{{Key: "a"}}, "---\n---\n---\nb: 2\n---\n"},
		{"text", []Field{{Key: "a", Values: []string{"b\nc\x01\u2028 \"\\"}}}, "---\na: \"b\\nc\\x01\\U00002028 \\\"\\\\\"\n---\ntext"},
		{"text", []Field{{Key: "a", List: true, Values: []string{"-1"}}, {Key: "b", Values: []string{"-1"}}}, "---\na: [\"-1\"]\nb: -1\n---\ntext"},
	} {
		got, err := Set(row.content, row.fields...)
		if got != row.want || err != nil {
			t.Errorf("%q with %+v:\n got %q, %v\nwant %q", row.content, row.fields, got, err, row.want)
		}
	}
}

func TestEdit(t *testing.T) {
	set := []Field{{Key: Type, Values: []string{"fact"}}}
	for _, row := range []struct {
		edit      Edit
		old, text string
		want      string
	}{
		{Edit{}, "---\na: 1\n---\nold", "new", "---\na: 1\n---\nnew"},
		{Edit{}, "---\na: 1\n---", "new", "---\na: 1\n---\nnew"},
		{Edit{}, "---\na: 1\n---\nold", "---\nb: 2\n---\nnew", "---\nb: 2\n---\nnew"},
		{Edit{}, "---\na: 1\n---\nold", "---\nb: {}\n---\nnew", "---\na: 1\n---\n---\nb: {}\n---\nnew"},
		{Edit{}, "old", "new", "new"},
		{Edit{Drop: true}, "---\na: 1\n---\nold", "---\nb: 2\n---\n---\nc: 3\n---\nnew", "new"},
		{Edit{Set: set}, "---\na: 1\n---\nold", "new", "---\na: 1\ntype: fact\ncrabmem: 1\n---\nnew"},
		{Edit{Set: set, Drop: true}, "---\na: 1\n---\nold", "new", "---\ntype: fact\ncrabmem: 1\n---\nnew"},
		{Edit{Set: []Field{{Key: "a"}}}, "---\na: 1\n---\nold", "new", "new"},
		{Edit{Set: []Field{{Key: "b"}}}, "---\na: 1\n---\nold", "new", "---\na: 1\n---\nnew"},
		{Edit{Set: []Field{{Key: "b"}}}, "old", "new", "new"},
	} {
		if got, err := row.edit.Apply(row.old, row.text); got != row.want || err != nil {
			t.Errorf("%+v of %q and %q:\n got %q, %v\nwant %q", row.edit, row.old, row.text, got, err, row.want)
		}
	}
}

func TestLinks(t *testing.T) {
	const text = "---\nsupersedes: \"[[deploy-v1]]\"\nrelated: [\"[[a]]\", \"[[b|shown]]\"]\ntitle: \"of [[c]]\"\npart_of: none\n---\n" +
		"See [[d]], [[a]], [[d]], [[ e ]] and [[f|the f]]. Not `[[x]]` nor ``[[x]] ` [[x]]`` but `[[g]] and [[[h]].\n" +
		"[[x\n]] [[]] [[|x]]\n```go\n[[x]]\n~~~\n````\n[[i]]\n~~~\n[[x]]"
	var got []string
	for _, l := range Links(text) {
		got = append(got, l.Relation+" "+l.Target)
	}
	want := []string{"supersedes deploy-v1", "related a", "related b", "related c", "related d", "related e", "related f", "related g", "related [h", "related i"}
	if !slices.Equal(got, want) {
		t.Errorf("links\n%q, want\n%q", got, want)
	}
	if n := len(Links(strings.Repeat("[[a]] ", 1000))); n != 1 {
		t.Errorf("%d links to one entry", n)
	}
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "[[n%d]] ", i)
	}
	for _, text := range []string{many.String(), "---\ntitle: \"" + many.String() + "\"\n---\n", "---\ntitle: \"[[n0]]\"\n---\n" + many.String()} {
		if list := Links(text); len(list) != 256 || list[255].Target != "n255" {
			t.Errorf("%d of 300 links, the last to %q", len(list), list[len(list)-1].Target)
		}
	}
	for _, name := range []string{"", " a", "a|b", "a]", "a]]b", "a[[b", "a\nb"} {
		if l, err := LinkTo(name); err == nil {
			t.Errorf("link to %q: %s", name, l)
		}
	}
	for _, name := range []string{"a", "[a", "a] b", "ä # x: y"} {
		l, err := LinkTo(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := Set("", Field{Key: Supersedes, Values: []string{l}})
		if m, _, _ := Parse(content); err != nil || !slices.Equal(m.Targets(Supersedes), []string{name}) {
			t.Errorf("%q: %q, %v", name, content, err)
		}
	}
}

func TestKnownKeys(t *testing.T) {
	parse := func(front string) *Metadata {
		m, _, ok := Parse("---\n" + front + "\n---\n")
		if !ok {
			t.Fatalf("%q is no front matter", front)
		}
		return &m
	}
	for front, want := range map[string]float64{
		"a: b": 0.5, "importance: 1.5": 0.5, "importance: 0": 0, "importance: 1": 1, "type: word": 0.5, "importance: NaN": 0.5,
		"type: fact": 0.5, "type: preference": 0.7, "type: decision": 0.7, "type: Identity": 0.9,
		"type: event": 0.4, "type: observation": 0.3, "type: goal": 0.7, "type: todo": 0.6,
	} {
		if got := parse(front).Importance(); got != want {
			t.Errorf("%s: importance %v, want %v", front, got, want)
		}
	}
	if got := parse("tags: '#a, b c,'").Tags(); !slices.Equal(got, []string{"a", "b c"}) {
		t.Errorf("tags %q", got)
	}
	m := parse("expires: 2026-04-14")
	for at, want := range map[string]bool{"2026-04-14T23:59:59Z": false, "2026-04-15T00:00:00Z": true, "2026-04-15T01:00:00+02:00": false} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil || m.Expired(now) != want {
			t.Errorf("expired at %s: %v, want %v, %v", at, !want, want, err)
		}
	}
	if parse("expires: soon").Expired(time.Now()) || parse("crabmem: 2").Adopted() || !parse("crabmem: 1").Adopted() {
		t.Error("wrong expiry or adoption")
	}
}

func TestReplaceLinks(t *testing.T) {
	mark := func(link, line string) string { return "<" + link + ">" + line[:1] + line[len(line)-1:] }
	for text, want := range map[string]string{
		"":                                      "",
		"a [[b]] [[c|d]]\r\n[[e]]":              "a [[<b>a]]] [[<c|d>a]]]\r\n[[<e>[]]]",
		"`[[a]]` ``[[b]]`` `` [[c]]":            "`[[a]]` ``[[b]]`` `` [[<c>`]]]",
		"`a` [[b]] `c`":                         "`a` [[<b>``]] `c`",
		"[[[[a]] b]]":                           "[[[[<a>[]]] b]]",
		"[[a [[b]]":                             "[[a [[<b>[]]]",
		"[[a`b]]":                               "[[<a`b>[]]]",
		"```\n[[a]]\n```\n[[b]]\n~~~\n[[c":      "```\n[[a]]\n```\n[[<b>[]]]\n~~~\n[[c",
		"   ~~~ `x\n[[a]]\n~~~\n    ```\n[[b]]": "   ~~~ `x\n[[a]]\n~~~\n    ```\n[[<b>[]]]",
		"``` a`b``` [[c]]":                      "``` a`b``` [[<c>`]]]",
		"[[ ]] [[|a]] [[]] [[b]] [[a\n]]":       "[[ ]] [[|a]] [[]] [[<b>[a]] [[a\n]]",
	} {
		if got := ReplaceLinks(text, mark); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Links("[[a`b]]"); len(got) != 1 || got[0].Target != "a`b" {
		t.Errorf("links %v", got)
	}
}

// TestNewField checks the fields of flags and arguments.
func TestNewField(t *testing.T) {
	for _, row := range []struct {
		key    string
		values []string
		want   string // the line, or the error after "invalid metadata: "
	}{
		{Tags, []string{" #a "}, "tags: [a]"},
		{Tags, []string{"a", " ", "b", "a"}, "tags: [a, b]"},
		{Tags, []string{""}, "tags:"},
		{"x", []string{" a "}, `x: " a "`},
		{"x", []string{"a", "b"}, "x: [a, b]"},
		{Type, []string{" new_type-2 "}, "type: new_type-2"},
		{Importance, []string{" 1 "}, "importance: 1"},
		{Related, []string{" a ", "[[b]]"}, `related: ["[[a]]", "[[b]]"]`},
		{Related, []string{"a]]"}, `no link to "a]]": a link contains no |, [[, ]], or line end, and no space at an end: give the entry an alias`},
		{Related, []string{"[[a"}, `no link to "[[a": a link contains no |, [[, ]], or line end, and no space at an end: give the entry an alias`},
		{Tags, []string{"#"}, `tag "#": want a word without commas`},
		{Tags, []string{"a,b"}, `tag "a,b": want a word without commas`},
		{Expires, []string{"tomorrow"}, `expires "tomorrow": want a day, such as 2026-04-14`},
		{Adopted, []string{"1"}, "key crabmem: set another key, or run crabmem metadata adopt"},
		{"a:b", nil, `key "a:b": use letters, digits, spaces, and _-./`},
	} {
		f, err := NewField(row.key, row.values...)
		got := f.Line()
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "invalid metadata: ")
		}
		if got != row.want {
			t.Errorf("%s with %q: %s, want %s", row.key, row.values, got, row.want)
		}
	}
}

// TestParts checks what a search index contains of a content.
func TestParts(t *testing.T) {
	const content = "---\ntags: [a, b]\npart_of: \"[[c]]\"\ntitle: d [[e]]\ncrabmem: 1\n---\ntext [[f]]"
	names, text, values := Parts(content)
	if got := fmt.Sprintf("%q %q %q", names, text, values); got != `["a" "b" "[[c]]"] "text [[f]]" ["d [[e]]"]` {
		t.Errorf("parts %s", got)
	}
	m, _, _ := Parse(content)
	if m.Line(PartOf) != 3 || m.Line("missing") != 0 {
		t.Errorf("lines %d and %d", m.Line(PartOf), m.Line("missing"))
	}
}
