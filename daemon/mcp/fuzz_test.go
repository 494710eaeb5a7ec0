package mcp

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/bench/gate"
	"crabmem/daemon/tool"
	"crabmem/fuzz/race"
)

// FuzzServer checks that for any server input no call hangs, no goroutine
// leaks, names of tools are valid, and models and the log receive limited text.
// Form feeds in script separate the responses to calls.
func FuzzServer(f *testing.F) {
	const (
		result = `{"jsonrpc":"2.0","id":$id,"result":`
		tools  = result + `{"tools":[`
		schema = `"inputSchema":{"type":"object"}}`
	)
	for _, s := range []string{
		"", "{}", "\xff\xfe\x00", "null\n[]\n[1,{}]\n[" + strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 20_000),
		result + "null}", result + "{}}", result + `{"protocolVersion":"2026-07-28","capabilities":{"tools":{}}}}`,
		result + `{"protocolVersion":"2025-11-25","capabilities":null}}`, result + `{"protocolVersion":"2025-11-25"}}`,
		`{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"a\u001b[2J\ud800<x>","data":[1]}}`,
		`{"jsonrpc":"2.0","id":$id,"error":{"code":1,"message":"` + strings.Repeat("long ", 50_000) + `"}}`,
		`{"jsonrpc":"2.0","id":$id,"error":null}`, `{"jsonrpc":"1.0","id":$id,"result":{}}`, `{"jsonrpc":"2.0","id":1e999,"result":{}}`,
		"\f" + tools + `null,{},{"name":""},{"name":"a",` + schema + `,{"name":"a",` + schema + `,{"name":"h__a",` + schema + `,{"name":"bash",` + schema + `]}}`,
		"\f" + tools + `{"name":"<x>","inputSchema":1},{"name":"x y"},{"name":"é"},{"name":"` + strings.Repeat("n", 200) + `"}]}}`,
		"\f" + tools + `{"name":"a","description":"<b>\u202e\ud83d` + strings.Repeat("\\n<", 2000) + `","inputSchema":{"properties":{"p\u0000":{"type":["x"],"enum":[{}],"description":"d"},"q":{}},"required":["q"]}}]}}`,
		"\f" + tools + `],"nextCursor":"$id","ttlMs":99999999}}`, "\f" + tools + `{"name":"a",` + schema + `],"nextCursor":"a"}}`,
		"\f" + tools + `{"name":"a","inputSchema":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}]}}`,
		"\f\f" + result + `{"content":[{"type":"text","text":"a\ud800\u0000"},{"type":"image","data":"AA==","mimeType":"<\n>"},{"type":"audio","data":"","mimeType":""}]}}`,
		"\f\f" + result + `{"content":[{"type":"resource_link","uri":"a\nb","name":"x","size":-1},{"type":"resource","resource":{"uri":"u","blob":"AAAA"}},{"type":"resource"}]}}`,
		"\f\f" + result + `{"content":[null,{"type":"new"},{},1]}}`, "\f\f" + result + `{"content":[],"structuredContent":{"a":[1,{}]},"isError":true}}`,
		"\f\f" + result + `{"resultType":"inputRequired","inputRequests":{"a":{"method":"elicitation/create","params":{}}}}}`,
		"\f\f" + result + `{"inputRequests":{}}}`, "\f\f" + result + `{"content":[{"type":"text","text":"` + strings.Repeat("é", maxText) + `"}]}}`,
		"\f\f" + `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n" + result + `{}}`,
		"\f\f" + `[{"jsonrpc":"2.0","id":"q","method":"ping"},` + result + `{}},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}]`,
		"\f\f" + `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}` + "\n" + `{"jsonrpc":"2.0","id":"q","method":"","params":[]}`,
		"\f\fdata: " + result + "{}}\n\n", "\f\f:\n\nid: 1\nretry: 99999999999\n\n", "\f\fdata: {\ndata: }\n\n", "\f\fdata", "data: x\n\n",
		"HTTP/1.1 400 Bad\r\nContent-Type: text/event-stream\r\n\r\nx", "HTTP/1.1 302 Found\r\nLocation: http://other/\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/9 x",
		"\f\fHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", "\f\fHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
		"\f\fHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: 2\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b",
	} {
		f.Add(s, "", false, false)
		if race.Enabled {
			continue
		}
		f.Add(s, "data: "+`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n\n", true, false)
		f.Add("", s, len(s)%2 == 0, true)
	}
	f.Fuzz(func(t *testing.T, script, unasked string, http, deaf bool) {
		if len(script)+len(unasked) > 1<<20 {
			return
		}
		h := &hostile{http: http, answers: strings.Split(script, "\f"), unasked: unasked, deaf: deaf}
		began := time.Now()
		text := func(what, text string, most int) {
			t.Helper()
			if len(text) > most || !utf8.ValidString(text) {
				t.Errorf("%s: %d bytes, at most %d are allowed: %q", what, len(text), most, clipped(text, 1000))
			}
		}
		line := func(what, line string) {
			t.Helper()
			if strings.ContainsAny(line, "<>") || strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("%s: %q", what, clipped(line, 1000))
			}
		}
		log := h.meet(t, func(t *testing.T, m *Manager) {
			call := func(name string) string {
				began := time.Now()
				got, err := m.run(t.Context(), tool.Call{Scope: tool.Unbounded()}, name, nil)
				if err != nil {
					got = err.Error()
				}
				text("the answer of "+name, got, tool.MaxOutput)
				if took := time.Since(began); took > settle+m.configured["h"].Timeout {
					t.Errorf("%s took %s", name, took)
				}
				return got
			}
			for range 2 { // the second time another list may be there
				for l := range strings.Lines(call("")) {
					line("the list", strings.TrimSuffix(l, "\n"))
				}
				r := m.Resources(tool.Unbounded())
				text("the prompt", r, maxResources+len(resources)+100)
				for l := range strings.Lines(r) {
					line("the prompt", strings.TrimSuffix(l, "\n"))
				}
				all := m.view(tool.Unbounded())
				if len(all) > maxTools {
					t.Errorf("%d tools", len(all))
				}
				for i, l := range all {
					if !callable(l.name) || l.label == "bash" || strings.HasPrefix(l.label, "h__") && l.label != l.qualified() {
						t.Errorf("a tool %q is called by %q", l.name, l.label)
					}
					if found := resolve(all, l.qualified()); len(found) != 1 || found[0].name != l.name {
						t.Errorf("%q names %d tools", l.qualified(), len(found))
					}
					if slices.ContainsFunc(all[:i], func(o listed) bool { return o.label == l.label }) {
						t.Errorf("two tools are called by %q", l.label)
					}
					text("a description", l.description, 4*maxDescription+10)
					line("a description", l.description)
					text("a schema", string(l.schema), maxSchema)
					if i < 3 {
						call(l.qualified())
					}
				}
				call("nobody")
				time.Sleep(keepAlive)
				synctest.Wait()
			}
		})
		text("the log", log, 64<<10)
		if strings.Contains(log, "planted") {
			t.Errorf("the token is in the log: %s", log)
		}
		gate.Time(t, "the script", began, 20*time.Second)
	})
}
