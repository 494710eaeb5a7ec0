package agent

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// TestKinds finds each constant of the kinds of events in Kinds, once.
func TestKinds(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []Kind
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Kind" {
				word, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				declared = append(declared, Kind(word))
			}
		}
		return true
	})
	got := slices.Clone(Kinds)
	slices.Sort(got)
	slices.Sort(declared)
	if !slices.Equal(got, declared) || len(declared) < 10 {
		t.Errorf("Kinds are %q, and the constants %q", got, declared)
	}
}

// TestEventJSON encodes events as clients receive them: an absent result has no fields, and
// an empty one has them.
func TestEventJSON(t *testing.T) {
	for want, e := range map[string]Event{
		`{"kind":"tools_complete"}`:                                                               {Kind: ToolsComplete},
		`{"kind":"tool_result","session":"s","id":"c","output":"","ms":0}`:                        {Kind: ToolResult, Session: "s", Number: 3, Tag: "t", ID: "c", Tool: "bash", Result: &Result{}},
		`{"kind":"usage","usage":{"prompt":1,"completion":2,"context_limit":0,"estimated":true}}`: {Kind: Usage, Usage: &TokenUsage{Prompt: 1, Completion: 2, Estimated: true}},
		`{"kind":"done","error":{"code":500,"kind":"failed","message":"no"}}`:                     {Kind: Done, Error: &Failure{500, "failed", "no"}, Stop: Failed, Err: errEmpty},
		`{"kind":"ask_user","questions":[{"question":"Which?","header":"","options":[]}]}`:        {Kind: AskUser, Questions: []Question{{Question: "Which?", Options: []Option{}}}},
		`{"kind":"tool_start","calls":[{"id":"","name":"recall","arguments":""}]}`:                {Kind: ToolStart, Calls: []Call{{Name: "recall"}}, Early: true},
		`{"kind":"user","content":"hi","line":2,"repeated":true}`:                                 {Kind: User, Content: "hi", Line: 2, Repeated: true},
		`{"kind":"notice","text":"wait"}`:                                                         {Kind: Notice, Note: "wait"},
	} {
		if b, err := json.Marshal(e); err != nil || string(b) != want {
			t.Errorf("%s, %v; want %s", b, err, want)
		}
	}
}
