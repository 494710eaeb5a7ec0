package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// named returns a tool that returns its name, the arguments, and an error.
func named(name string, err error) Tool {
	return New(name, name+" described", func(_ context.Context, _ Call, args struct{ Text string }) (string, error) {
		if args.Text == "panic" {
			panic("oops")
		}
		return args.Text, err
	})
}

// TestSet adds, replaces, finds, and removes tools.
func TestSet(t *testing.T) {
	var s Set
	want := func(names ...string) {
		t.Helper()
		if got := s.Names(); !slices.Equal(got, names) {
			t.Errorf("names %q, want %q", got, names)
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			tool, ok := s.Get(name)
			if ok != slices.Contains(names, name) || ok && tool.Name != name || !ok && tool.Run != nil {
				t.Errorf("get %s: %+v, %v", name, tool.Name, ok)
			}
		}
	}
	want()
	s.Remove("a")
	s.Add(named("c", nil), named("a", nil))
	want("a", "c")
	s.Add(named("b", nil))
	want("a", "b", "c")
	s.Remove("d")
	replaced := named("b", nil)
	replaced.Description = "new"
	s.Add(replaced)
	want("a", "b", "c")
	if b, _ := s.Get("b"); b.Description != "new" {
		t.Errorf("the tool was not replaced: %q", b.Description)
	}
	schemas := s.Schemas(Scope{Tools: Only("a", "c", "x")}, nil)
	if len(schemas) != 2 || schemas[0].Name != "a" || schemas[0].Description != "a described" || schemas[1].Name != "c" {
		t.Errorf("schemas %+v", schemas)
	}
	s.Remove("a")
	want("b", "c")
	s.Remove("c")
	want("b")
}

// TestSetCall checks each field of a result.
func TestSetCall(t *testing.T) {
	var s Set
	s.Add(named("ok", nil), named("fails", errors.New("no luck")), named("refuses", fmt.Errorf("wrapped: %w", &Violation{Kind: "skill", Name: "x"})))
	long := strings.Repeat("x", MaxOutput)
	for _, c := range []struct {
		name, text, want string
		failed, refused  bool
	}{
		{"ok", "a", "a", false, false},
		{"ok", "", "", false, false},
		{"ok", long, long, false, false},
		{"ok", long + "y", long + "\n... [1 bytes left out]", false, false},
		{"fails", "", "no luck", true, false},
		{"fails", "a", "a\nno luck", true, false},
		{"refuses", "", "wrapped: skill not available: x", true, true},
		{"forbidden", "", "tool not available: forbidden", true, true},
		{"missing", "", "tool not available: missing", true, false},
	} {
		arguments, err := json.Marshal(map[string]string{"text": c.text})
		if err != nil {
			t.Fatal(err)
		}
		r := s.Call(t.Context(), Call{Name: c.name, Arguments: arguments, Agent: "crab", Session: 7, Scope: Scope{Tools: Only("ok", "fails", "refuses", "missing")}})
		if r.Output != c.want || r.Failed != c.failed || (r.Refused != nil) != c.refused || r.Took <= 0 {
			t.Errorf("%s %.10q: %.100q, failed %v, refused %v, took %v", c.name, c.text, r.Output, r.Failed, r.Refused, r.Took)
		}
		if v := r.Refused; v != nil && (v.Agent != "crab" || v.Session != 7) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	r := s.Call(t.Context(), Call{Name: "ok", Arguments: json.RawMessage(`{"text":"panic"}`), Scope: Unbounded()})
	if lines := strings.Count(r.Output, "\n"); !r.Failed || !strings.HasPrefix(r.Output, "tool ok failed: oops\ngoroutine ") || lines != 13 {
		t.Errorf("a panic: %d lines, %s", lines, r.Output)
	}
}

// TestDecode checks the limit of arguments and each kind of invalid arguments.
func TestDecode(t *testing.T) {
	size := func(n int) string { return `{"text":"` + strings.Repeat("x", n-11) + `"}` }
	for _, c := range []struct{ arguments, want string }{
		{"", ""}, {" \n", ""}, {"{}", ""}, {`{"text":"a","other":1}`, ""},
		{size(maxArguments), ""}, {size(maxArguments + 1), "invalid arguments: 1048577 bytes, at most 1048576"},
		{"x", "invalid arguments: invalid character 'x' looking for beginning of value"},
		{`{"text":"` + "\xff" + `"}`, "invalid arguments: argument text: invalid UTF-8: send text"},
		{`{"text":"\ud800"}`, `invalid arguments: argument text: lone surrogate \ud800: send complete characters`},
	} {
		out, err := named("t", nil).Run(t.Context(), Call{Arguments: json.RawMessage(c.arguments)})
		if text := fmt.Sprint(err); text != c.want && (c.want != "" || err != nil) || err != nil && out != "" {
			t.Errorf("%.40q: %.40q, %v, want %q", c.arguments, out, err, c.want)
		}
	}
}

// TestFirstLines cuts a text to as many lines as it has, and fewer.
func TestFirstLines(t *testing.T) {
	for n, want := range []string{"", "a\n", "a\nb\n", "a\nb\nc", "a\nb\nc"} {
		if got := firstLines([]byte("a\nb\nc"), n); got != want {
			t.Errorf("%d lines: %q, want %q", n, got, want)
		}
	}
	if got, want := clipName(strings.Repeat("n", 257)), strings.Repeat("n", 256)+"\n... [1 bytes left out]"; got != want {
		t.Errorf("a name of 257 bytes: %q", got)
	}
	if got := clipName(strings.Repeat("n", 256)); len(got) != 256 {
		t.Errorf("a name of 256 bytes: %q", got)
	}
	if got, want := bounded("\x80\x80", 1), "\uFFFD\n... [1 bytes left out]"; got != want {
		t.Errorf("continuation bytes: %q, want %q", got, want)
	}
}
