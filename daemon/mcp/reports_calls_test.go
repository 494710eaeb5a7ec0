package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/tool"
	"crabmem/fuzz/golden"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ask calls the mcp tool and reports the result, or the error and what it wraps.
func (w *world) ask(title string, scope tool.Scope, arguments string) {
	began := time.Now()
	result, err := w.Tool().Run(w.t.Context(), tool.Call{Name: tool.MCP, Arguments: []byte(arguments), Scope: scope})
	report := fmt.Sprintf("after %v: %d bytes %s", time.Since(began), len(result), clip(result, 2000))
	if err != nil {
		report = fmt.Sprintf("after %v: error %v", time.Since(began), clip(err.Error(), 2000))
	}
	if v, ok := errors.AsType[*tool.Violation](err); ok {
		report += fmt.Sprintf(", violation %+v", *v)
	}
	w.mu.Lock()
	for _, event := range w.events {
		if strings.Contains(event, "tools/call") {
			report += "\n" + event
		}
	}
	w.events = nil
	w.mu.Unlock()
	w.r.Add(title, report)
}

// TestReportsOfNamesInScopes compares what calls by each name return for agents
// with different scopes.
func TestReportsOfNamesInScopes(t *testing.T) {
	scopes := map[string]tool.Scope{
		"unbounded": tool.Unbounded(), "one": tool.For(tool.Grant{MCPs: []string{"one"}}), "one*": tool.For(tool.Grant{MCPs: []string{"one*"}}),
		"two": tool.For(tool.Grant{MCPs: []string{"two"}}), "none": tool.For(tool.Grant{MCPs: []string{"none"}}), "skills": tool.For(tool.Grant{Skills: []string{"x"}}), "nothing": {},
	}
	names := []string{"", " ", "a", " a ", "b", "c", "d", "bash", "one", "one__a", "one__b", "one__x", "one__x__y", "one__x__c", "x__y", "one__", "two", "two__a", "two__c", "two__bash", "down", "down__a", "none", "none__a",
		"*", "o*", "one__*", "a*", "z*", "**", strings.Repeat("n", 300), strings.Repeat("é", 130), "one__a*", "a__b"}
	var r golden.Reports
	inWorld(t, &r, func(w *world) {
		tools := func(names ...string) string {
			var list []string
			for _, n := range names {
				list = append(list, fmt.Sprintf(`{"name":%q,"description":"%s.","inputSchema":{"type":"object","properties":{"p":{"type":"string"}}}}`, n, n))
			}
			return "[" + strings.Join(list, ",") + "]"
		}
		w.site("1001", "one", true).tools = tools("a", "b", "x__y")
		w.site("1002", "one__x", false).tools = tools("y", "c")
		w.site("1003", "two", false).tools = tools("a", "bash", "c", "d")
		w.Set([]Server{
			{Name: "one", URL: "http://127.0.0.1:1001/mcp"}, {Name: "one__x", URL: "http://127.0.0.1:1002/mcp"},
			{Name: "two", URL: "http://127.0.0.1:1003/mcp"}, {Name: "down", URL: "http://127.0.0.1:1004/mcp", Once: true},
		})
		w.step("connected", 10*time.Second)
		for _, scope := range sortedKeys(scopes) {
			w.r.Add("resources for "+scope, w.Resources(scopes[scope]))
			for _, name := range names {
				b, err := json.Marshal(map[string]string{"name": name})
				if err != nil {
					t.Fatal(err)
				}
				w.ask(fmt.Sprintf("%.40q of %s", name, scope), scopes[scope], string(b))
			}
		}
	})
	r.Compare(t, "testdata/reports/scopes.txt.gz")
}

// TestReportsOfCalls compares the arguments that a server receives, and what a
// call returns for each response.
func TestReportsOfCalls(t *testing.T) {
	var r golden.Reports
	inWorld(t, &r, func(w *world) {
		a := w.site("1001", "s", false)
		bare := `{"name":"bare","inputSchema":{}}`
		long := `{"name":"long","inputSchema":{"type":"object","title":"%s"}}`
		whole := len(fmt.Sprintf(`{"type":"object","title":"%s"}`, ""))
		tools := []string{toolA, toolB, bare, `{"name":"none"}`}
		for n := -1; n <= 1; n++ {
			tools = append(tools, strings.Replace(fmt.Sprintf(long, strings.Repeat("x", maxToldSchema-whole+n)), "long", fmt.Sprint("long", n+1), 1))
		}
		a.tools = "[" + strings.Join(tools, ",") + "]"
		w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp", Timeout: 5 * time.Second}})
		w.step("connected", time.Second)
		for _, args := range []string{"", "null", `""`, `" "`, `"null"`, `"{}"`, "{}", `{"p":1}`, `"{\"p\":\"x\"}"`, `" {\"p\":2} "`, "7", `"7"`, "[]", `"[]"`, `"{"`, "true", `"{\"p\":1}{}"`} {
			for _, name := range []string{"a", "long0", "long1", "long2", "bare", "none"} {
				arguments := `{"name":"` + name + `"`
				if args != "" {
					arguments += `,"args":` + args
				}
				w.ask(fmt.Sprintf("arguments %s of %s", args, name), tool.Unbounded(), arguments+"}")
			}
		}
		for _, arguments := range []string{"", "{}", "{", `{"name":7}`, `{"name":"a","args":{},"other":1}`} {
			w.ask("the tool's arguments "+arguments, tool.Unbounded(), arguments)
		}
		for _, answer := range []string{
			`"result":{"content":[]}`, `"result":{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"isError":true}`, `"result":{"isError":true}`, `"result":null`,
			`"result":{"content":[{"type":"unknown"}]}`, `"result":{"content":[],"structuredContent":[1,2]}`, `"result":{"content":[{"type":"text","text":"one"}],"structuredContent":[1,2]}`,
			`"error":{"code":-32602,"message":"wrong\nargument <p>"}`, `"error":{"code":-32603,"message":"broken"}`, `"error":{"code":1,"message":"` + strings.Repeat("m", 5000) + `"}`,
		} {
			a.set(func() { a.hostile.answers = []string{`{"jsonrpc":"2.0","id":$id,` + answer + `}`} })
			for _, name := range []string{"a", "bare"} {
				w.ask(fmt.Sprintf("%.200s of %s", answer, name), tool.Unbounded(), `{"name":"`+name+`"}`)
			}
		}
		a.set(func() { a.hostile.answers = []string{"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"} })
		w.ask("status 500", tool.Unbounded(), `{"name":"a"}`)
		w.step("after status 500", 10*time.Second)
		a.set(func() { a.hostile.answers = []string{silence} })
		w.ask("no response", tool.Unbounded(), `{"name":"a"}`)
		w.step("after no response", 10*time.Second)
		time.AfterFunc(time.Second+time.Microsecond, a.stop)
		w.ask("server stops", tool.Unbounded(), `{"name":"a"}`)
		w.step("after the stop", 0)
		w.step("after the next pings", 4*time.Minute)
	})
	r.Compare(t, "testdata/reports/calls.txt.gz")
}

// TestReportsOfWaits compares how long calls wait for servers that connect.
func TestReportsOfWaits(t *testing.T) {
	var r golden.Reports
	one := tool.For(tool.Grant{MCPs: []string{"one"}})
	for _, name := range []string{"", "a", "b", "none"} {
		for title, scope := range []tool.Scope{tool.Unbounded(), one} {
			for _, limit := range []time.Duration{time.Hour, 4 * time.Second} {
				inWorld(t, &r, func(w *world) {
					// one responds at once, two after 2 s, three never, four after 20 s.
					w.site("1001", "one", true)
					two, three := w.site("1002", "two", true), w.site("1003", "three", true)
					two.tools = "[" + toolB + "]"
					two.set(func() { two.down = true })
					three.silent = "initialize"
					servers := []Server{{Name: "one", URL: "http://127.0.0.1:1001/mcp"}, {Name: "two", URL: "http://127.0.0.1:1002/mcp"}, {Name: "three", URL: "http://127.0.0.1:1003/mcp"}}
					w.Set(servers)
					time.Sleep(1500 * time.Millisecond)
					two.set(func() { two.down = false })
					time.Sleep(500 * time.Microsecond)
					began := time.Now()
					ctx, cancel := context.WithTimeout(w.t.Context(), limit)
					defer cancel()
					result, err := w.run(ctx, tool.Call{Scope: scope}, name, nil)
					r.Addf(fmt.Sprintf("%q of scope %d, limit %v", name, title, limit), "after %v: %s, %v", time.Since(began), result, err)
				})
			}
		}
	}
	inWorld(t, &r, func(w *world) { // without a watch
		w.site("1001", "one", true)
		w.o.Run = "/run"
		w.ask("no component", tool.Unbounded(), "{}")
		w.portFile("one", "1001")
		w.ask("a new component", tool.Unbounded(), `{"name":"a"}`)
		w.remove("one")
		w.ask("a removed component whose name is enough", tool.Unbounded(), `{"name":"a"}`)
		w.ask("a removed component", tool.Unbounded(), "{}")
		w.portFile("one", "1001")
		w.Set(nil)
		w.step("found by Set", time.Second)
	})
	r.Compare(t, "testdata/reports/waits.txt.gz")
}

// TestReportsOfResults compares the texts of results with every kind of content.
func TestReportsOfResults(t *testing.T) {
	var r golden.Reports
	size := func(n int64) *int64 { return &n }
	kinds := []sdk.Content{
		&sdk.TextContent{Text: "text"}, &sdk.TextContent{}, &sdk.TextContent{Text: "\xff\n<x>"}, &sdk.ImageContent{MIMEType: "image/png", Data: make([]byte, 3)}, &sdk.ImageContent{},
		&sdk.AudioContent{MIMEType: strings.Repeat("m", 101), Data: make([]byte, 1)}, &sdk.ResourceLink{URI: "a:\nb", MIMEType: "x/y", Size: size(7)}, &sdk.ResourceLink{URI: strings.Repeat("u", 501), Size: size(0)},
		&sdk.ResourceLink{Size: size(-1)}, &sdk.ResourceLink{}, &sdk.EmbeddedResource{}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:v", MIMEType: "x/z"}},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:v", Text: "inside"}}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{Blob: make([]byte, 9)}},
		//lint:ignore SA1019 an unknown type for textOf
		&sdk.ToolUseContent{}, nil,
	}
	random := rand.New(rand.NewPCG(8, 8))
	for i := range 200 {
		var c []sdk.Content
		title := "content"
		if i < len(kinds) {
			c, title = kinds[i:i+1], fmt.Sprint("content ", i)
		} else {
			for range random.IntN(4) {
				k := random.IntN(len(kinds))
				c, title = append(c, kinds[k]), fmt.Sprint(title, " ", k)
			}
		}
		structured := []any{nil, map[string]any{"a": "<b>"}, func() {}, 7}[random.IntN(4)]
		title += fmt.Sprintf(", structured %T", structured)
		if _, ok := structured.(func()); ok && len(c) == 0 {
			title += " that JSON does not represent"
		}
		r.Addf(title, "%q", textOf(&sdk.CallToolResult{Content: c, StructuredContent: structured}))
	}
	for n := -3; n <= 3; n++ {
		for _, after := range []string{"", "x", "éé"} {
			for _, first := range []string{strings.Repeat("y", maxText+n), strings.Repeat("é", (maxText+n)/2)} {
				text := textOf(&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: first}, &sdk.TextContent{Text: after}}})
				r.Addf(fmt.Sprintf("%d bytes, limit %+d, then %q", len(first), n, after), "%d bytes, %q", len(text), text[len(text)-40:])
			}
		}
	}
	text := textOf(&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a\xff"}, &sdk.TextContent{Text: strings.Repeat("y", maxText)}}})
	r.Addf("two short texts", "%q", textOf(&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "1"}, &sdk.TextContent{Text: "2"}}}))
	r.Addf("invalid text, then more than the limit", "%d bytes, %q", len(text), text[len(text)-40:])
	r.Compare(t, "testdata/reports/results.txt.gz")
}

// TestCallsLeaveNothing checks that no function waits for the end of a call's
// context after the call.
func TestCallsLeaveNothing(t *testing.T) {
	inWorld(t, &golden.Reports{}, func(w *world) {
		w.site("1001", "s", true)
		w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp"}})
		w.step("connected", time.Second)
		ctx := &countingContext{Context: w.t.Context(), done: make(chan struct{})}
		if result, err := w.run(ctx, tool.Call{Scope: tool.Unbounded()}, "a", nil); result != "done" || err != nil {
			t.Errorf("%q, %v", result, err)
		}
		synctest.Wait()
		if ctx.waiting != 0 {
			t.Errorf("%d functions wait", ctx.waiting)
		}
	})
}
