package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// rowsOf is the output of crabmem-sqlite, which ends with an error if failed is set.
func rowsOf(text string, failed error) Rows {
	return func(context.Context, string, []string) (io.ReadCloser, error) {
		return closer{strings.NewReader(text), failed}, nil
	}
}

type closer struct {
	io.Reader
	err error
}

func (c closer) Close() error { return c.err }

const (
	walrusHead = `{"schema":{"memories":["key","value","metadata"]},"others":[]}` + "\n"
	end1       = `{"end":{"rows":1}}` + "\n"
)

func walrusRow(row string) string {
	return walrusHead + `{"table":"memories","row":` + row + "}\n" + end1
}

func TestListsOfRowsAreValues(t *testing.T) {
	for text, want := range map[string]string{
		`["a"]`: "k [a]", `["a", " b\n", 7, "a", ""]`: "k [a b 7]", `[]`: " []", `[""]`: " []", `["a", ["b"]]`: " [a]", `["a", {}]`: " [a]",
	} {
		f := noteField{Field: metadata.Field{Key: "k", Values: []string{"old"}}}
		f.setList(json.RawMessage(text))
		if got := fmt.Sprint(f.Key, " ", f.Values); got != want || !f.List {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestHostileRows reads rows with values that the format does not have.
func TestHostileRows(t *testing.T) {
	failed := errors.New("database disk image is malformed")
	cases := []struct {
		name, text string
		failed     error
		notes      int
		left, err  string
	}{
		{"a note", walrusRow(`{"key":"a","value":"x","metadata":"{\"b\":1}"}`), nil, 1, "", ""},
		{"wrong types", walrusRow(`{"key":7,"value":{"omitted":"blob","bytes":3},"metadata":"[["}`), nil, 1, `blob in column "value"`, ""},
		{"a large value", walrusRow(`{"key":"a","value":{"omitted":"large","bytes":99999999}}`), nil, 0, `large in column "value"`, "no entries to import"},
		{"a key with a line", walrusRow(`{"key":"a\nb\u0000","value":"x"}`), nil, 1, "", ""},
		{"deep metadata", walrusRow(`{"key":"a","value":"x","metadata":"` + strings.Repeat("[", 100_000) + `"}`), nil, 1, "", ""},
		{"another table", walrusHead + `{"table":"secrets","row":{}}` + "\n" + end1, nil, 0, `row of the table "secrets"`, "no entries to import"},
		{"no rows", walrusHead + `{"end":{"rows":0}}`, nil, 0, "", ""},
		{"no end", walrusHead + `{"table":"memories","row":{"key":"a","value":"x"}}`, nil, 0, "", "incomplete"},
		{"an error", walrusHead + `{"table":"memories","row":{"key":"a","value":"x"}}`, failed, 0, "", "malformed"},
		{"an error after the end", walrusRow(`{"key":"a","value":"x"}`), failed, 0, "", "malformed"},
		{"a wrong count", strings.Replace(walrusRow(`{"key":"a","value":"x"}`), `"rows":1`, `"rows":2`, 1), nil, 0, "", "1 rows, want 2"},
		{"no schema", `{"table":"memories"}`, nil, 0, "", "no schema"},
		{"no JSON", "text", nil, 0, "", "line 1: invalid character"},
		{"nothing", "", nil, 0, "", "incomplete"},
		{"no tables", `{"schema":{},"others":[]}` + "\n", nil, 0, "", "without tables"},
		{"an unknown program", `{"schema":{"memories":["id"]},"others":["` + strings.Repeat("x", 999) + `"]}` + "\n", nil, 0, "", "of an unknown program, with the tables memories, xxx"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := Source{Kind: SQLite, Path: "a.db", Rows: rowsOf(c.text, c.failed)}
			m, err := in.Memory(t.Context())
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if m == nil {
				return
			}
			if len(m.Notes) != c.notes || c.left != "" && left(m.Left, c.left) == 0 {
				t.Errorf("%d notes, left out %+v", len(m.Notes), m.Left)
			}
			twice(t, m)
		})
	}
}

// twice imports notes twice, the second time without effect.
func twice(t *testing.T, m *Memory) {
	t.Helper()
	s := crmem.New(nil)
	apply(t, s, planOf(t, m, s, Refuse).Ops)
	if p := planOf(t, m, s, Refuse); len(p.Ops)+len(p.Conflicts) > 0 || p.Skipped != len(m.Notes) {
		t.Errorf("second import %+v", p)
	}
}

// FuzzRows passes generated output of crabmem-sqlite to the readers of databases.
func FuzzRows(f *testing.F) {
	f.Add(walrusRow(`{"key":"a","value":"x","metadata":"{\"b\":[1,{}]}","created_at":1772357400000}`))
	f.Add(`{"schema":{"memories":["id","content","memory_type"]},"others":["a"]}
{"table":"memories","row":{"id":"1","content":"x","memory_type":"fact","forgotten":0}}
{"table":"associations","row":{"source_id":"1","target_id":"1","relation_type":"updates"}}
{"end":{"rows":2}}`)
	f.Add(`{"schema":{"observations":["id","session_id","type","title","content"]},"others":[]}
{"table":"observations","row":{"id":1,"title":"t","content":"c","topic_key":"a/b","created_at":"2026-03-01 09:30:00","pinned":1}}
{"table":"sessions","row":{"id":"s","summary":"x"}}
{"table":"user_prompts","row":{"id":1}}
{"end":{"rows":3}}`)
	f.Add(`{"schema":{"observations":["id","type","title","narrative","facts","project"]},"others":[]}
{"table":"observations","row":{"id":1,"title":"t","facts":"[\"a\",\"b\"]","concepts":"[]","created_at_epoch":1772357400000}}
{"table":"session_summaries","row":{"id":1,"request":"r","next_steps":{"omitted":"large","bytes":9}}}
{"end":{"rows":2}}`)
	f.Fuzz(func(t *testing.T, text string) {
		in := Source{Kind: SQLite, Path: "a.db", Rows: rowsOf(text, nil)}
		if m, err := in.Memory(t.Context()); err == nil {
			twice(t, m)
		}
	})
}

// TestFieldsFollowTheText sets fields of a note: one that its metadata cannot contain
// is a line after the text.
func TestFieldsFollowTheText(t *testing.T) {
	field := func(key string, values ...string) noteField {
		return noteField{metadata.Field{Key: key, List: len(values) > 1, Values: values}, "line of " + key}
	}
	for _, c := range []struct {
		text  string
		field noteField
		want  string
	}{
		{"text \n", field("source", "a"), "---\nsource: a\n---\ntext"},
		{"---\ntype: note\n---\ntext", field("source", "a"), "---\ntype: note\nsource: a\n---\ntext"},
		{"---\nsource: a\n---\ntext", field("source", "b"), "---\nsource: a\n---\ntext\n\nline of source"},
		{"---\nsource: [a, b]\n---\ntext", field("source", "b"), "---\nsource: [a, b]\n---\ntext\n\nline of source"},
		{"text", field("a:b", "c"), "text\n\nline of a:b"},
		{"text", field("", "c"), "text\n\nline of "},
		{"text", field(metadata.Adopted, "1"), "text\n\nline of crabmem"}, // expires and supersedes must not affect rankings
		{"", field("source", "a"), "line of source"},
		{"", field("", "a"), "line of "},
	} {
		var n Note
		if n.setFields(c.text, []noteField{c.field}); n.Text != strings.TrimSpace(c.want) {
			t.Errorf("%q with %+v: %q, want %q", c.text, c.field, n.Text, c.want)
		}
	}
}

// TestColumnsAreFields reads columns, some of them under another key, and the keys of the
// metadata of the reference.
func TestColumnsAreFields(t *testing.T) {
	var d databaseReader
	for _, c := range []struct{ row, want string }{
		{`{"type":"note"}`, "type=[note]"},
		{`{"type":"a\nb","concepts":"[\"x\",\"y\"]","other":""}`, "type=[a b] tags=[x y]"},
		{`{"concepts":"[]"}`, ""},
	} {
		o, err := parseObject([]byte(c.row))
		if got := fieldText(d.fields(o, "type", "concepts=tags", "other")); err != nil || got != c.want {
			t.Errorf("%s: %s, want %s, %v", c.row, got, c.want, err)
		}
	}
	for metadata, want := range map[string]string{
		`{"a":"b","c":7}`:                   "a=[b] c=[7]",
		`{"tag":"x, y"}`:                    "tags=[x y]",
		`{"tag":["x","y"],"tags":["z"]}`:    "tag=[x y] tags=[z]",
		`{"memory_type":"m","o":{"p":"q"}}`: "type=[m] =[]",
		`{"link":"a"}`:                      "related=[[[a]]]",
		`x`:                                 "=[x]",
	} {
		b, _ := json.Marshal(map[string]string{"metadata": metadata})
		o, err := parseObject(b)
		if got := fieldText(d.metadata(o)); err != nil || got != want {
			t.Errorf("%s: %s, want %s, %v", metadata, got, want, err)
		}
	}
}

func fieldText(fields []noteField) string {
	var list []string
	for _, f := range fields {
		list = append(list, fmt.Sprint(f.Key, "=", f.Values))
	}
	return strings.Join(list, " ")
}
