package modeltest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"crabmem/daemon/model/modeltest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}))
}

// post sends a request as an independent client does. Messages are "role:
// content".
func post(t *testing.T, s *modeltest.Server, model string, stream bool, messages ...string) (status int, header http.Header, body string) {
	t.Helper()
	q := map[string]any{"model": model, "stream": stream, "stream_options": map[string]any{"include_usage": true}}
	var list []any
	for _, m := range messages {
		role, content, _ := strings.Cut(m, ": ")
		list = append(list, map[string]any{"role": role, "content": content})
	}
	q["messages"] = list
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(string(b)))
	if err != nil {
		return 0, nil, err.Error()
	}
	defer res.Body.Close()
	b, err = io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, res.Header, string(b) + " " + err.Error()
	}
	return res.StatusCode, res.Header, string(b)
}

// said returns the text, the calls, and the end of a response, streamed or not.
func said(t *testing.T, body string, stream bool) string {
	t.Helper()
	type part struct {
		Content          string
		ReasoningContent string `json:"reasoning_content"`
		ToolCalls        []struct {
			Index    int
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	var b strings.Builder
	read := func(data string) {
		var k struct {
			Choices []struct {
				Delta, Message part
				FinishReason   string `json:"finish_reason"`
			}
			Usage map[string]int
		}
		if err := json.Unmarshal([]byte(data), &k); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		for _, c := range k.Choices {
			for _, p := range []part{c.Delta, c.Message} {
				if p.ReasoningContent != "" {
					fmt.Fprintf(&b, "(%s)", p.ReasoningContent)
				}
				b.WriteString(p.Content)
				for _, call := range p.ToolCalls {
					if call.ID != "" {
						fmt.Fprintf(&b, "%s %s ", call.ID, call.Function.Name)
					}
					b.WriteString(call.Function.Arguments)
				}
			}
			if c.FinishReason != "" {
				fmt.Fprintf(&b, "|%s", c.FinishReason)
			}
		}
		if k.Usage != nil {
			fmt.Fprintf(&b, "|%d+%d", k.Usage["prompt_tokens"], k.Usage["completion_tokens"])
		}
	}
	if !stream {
		read(body)
		return b.String()
	}
	for in := bufio.NewScanner(strings.NewReader(body)); in.Scan(); {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if ok && data != "[DONE]" {
			read(data)
		}
	}
	if strings.HasSuffix(body, "data: [DONE]\n\n") {
		b.WriteByte('.')
	}
	return b.String()
}

func tour(t *testing.T) *modeltest.Server {
	t.Helper()
	b, err := os.ReadFile("../../../testdata/model/tour.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := modeltest.New(t)
	if err := s.Script(string(b)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScript(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s := tour(t)
		s.Log = func(r modeltest.Request) {
			if r.LastUser() == "hang" {
				s.Release()
			}
		}
		for i, c := range []struct {
			model    string
			messages []string
			want     string
			end      string // of a stream, in place of "."
		}{
			{"m", []string{"user: list the files"}, `(I should look.)call_1 bash {"command": "ls"}|tool_calls`, ""},
			{"m", []string{"user: list the files", "assistant: ", "tool: a b"}, "There are two files: α and β.|stop|120+9", ""},
			{"m", []string{"user: list the files"}, "I do not know.|stop", ""},
			{"small", []string{"system: You are terse.", "user: 1"}, "ok|stop", ""},
			{"small", []string{"system: You are terse.", "user: 2"}, "ok|stop", ""},
			{"small", []string{"user: 2"}, "I do not know.|stop", ""},
			{"large", []string{"system: You are terse.", "user: 2"}, "I do not know.|stop", ""},
			{"m", []string{"user: x", "assistant: a\nb"}, "two lines:\ndone|length", ""},
			{"m", []string{"user: slowly"}, "é|stop", ""},
		} {
			status, header, body := post(t, s, c.model, stream, c.messages...)
			kind, want := "application/json", c.want
			if stream {
				kind, want = "text/event-stream", want+"."
			}
			if got := said(t, body, stream); status != 200 || header.Get("Content-Type") != kind || got != want {
				t.Errorf("%d, stream %v: %d %s %s, want %s", i, stream, status, header.Get("Content-Type"), got, want)
			}
		}
		status, header, body := post(t, s, "m", stream, "user: slow down")
		if status != 429 || header.Get("Retry-After") != "7" || !strings.Contains(body, `"message":"too fast"`) {
			t.Errorf("%d %v %s", status, header, body)
		}
		if _, _, body := post(t, s, "m", stream, "user: slow down"); !strings.Contains(body, "now") {
			t.Error(body)
		}
		if _, _, body = post(t, s, "m", stream, "user: broken"); !strings.Contains(body, "EOF") {
			t.Errorf("cut, stream %v: %s", stream, body)
		}
		if _, _, body = post(t, s, "m", stream, "user: broken"); !strings.Contains(body, "[{]") {
			t.Errorf("garbage: %s", body)
		}
		if _, _, body = post(t, s, "m", stream, "user: broken"); !strings.HasPrefix(body, `data: {"choices":[{"delta":{"content":"raw"}`) || strings.Contains(body, "[DONE]") {
			t.Errorf("raw: %s", body)
		}
		if _, _, body = post(t, s, "m", stream, "user: hang"); !strings.Contains(body, "released") {
			t.Errorf("stall: %s", body)
		}
		requests := s.Requests()
		if len(requests) != 15 || requests[0].LastUser() != "list the files" || requests[0].Stream != stream || requests[3].Model != "small" {
			t.Errorf("%d requests", len(requests))
		}
		if n := s.Left(); n != 0 {
			t.Errorf("%d replies are left", n)
		}
	}
}

func TestRules(t *testing.T) {
	s := modeltest.New(t, modeltest.Say("first"), modeltest.Say("second"))
	s.When("weather").Reply(modeltest.Say("sun")).Repeat()
	ask := func(text string) string {
		_, _, body := post(t, s, "m", true, "user: "+text)
		return said(t, body, true)
	}
	for _, c := range [][2]string{{"x", "first|stop."}, {"the weather", "sun|stop."}, {"weather?", "sun|stop."}, {"x", "second|stop."}} {
		if got := ask(c[0]); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
	if status, _, body := post(t, s, "m", true, "user: x"); status != 400 || !strings.Contains(body, "no_reply") || !strings.Contains(body, `no reply left for \"x\"`) {
		t.Errorf("%d %s", status, body)
	}
	s.Func(func(r modeltest.Request) modeltest.Reply { return modeltest.Say("you said ", r.LastUser()) })
	if got := ask("ho"); got != "you said ho|stop." {
		t.Error(got)
	}
	if s.Queue(modeltest.Say("third")); ask("x") != "third|stop." {
		t.Error("the queue comes after the func")
	}
}

func TestBadRequests(t *testing.T) {
	s := modeltest.New(t, modeltest.Say("x"))
	for body, want := range map[string]int{"{": 400, "{}": 400, `{"messages":[]}`: 400} {
		res, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d", body, res.StatusCode)
		}
	}
	res, err := http.Post(s.URL+"/responses", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`))
	if err != nil || res.StatusCode != 404 {
		t.Error(res, err)
	}
	res.Body.Close()
}

func TestBadScripts(t *testing.T) {
	for script, want := range map[string]string{
		"when user x":              "rule 1 has no reply",
		"text a\nalways\n":         "rule 2 has no reply",
		"sing a song":              `line 1: "sing" is nothing that a script can say`,
		"\n# x\nwhen day monday":   `line 3: when "day": it is user, last, system or model`,
		"text \"open":              "line 1: \"open: not a quoted text",
		"usage many few":           "line 1: usage needs two numbers",
		"status ok":                `line 1: status "ok" is not an HTTP status`,
		"call":                     "line 1: call needs a name",
		"header X":                 "line 1: header needs a name, a colon and a value",
		"drip":                     `line 1: drip "": it is a number of milliseconds`,
		"stall -5":                 `line 1: stall "-5": it is a number of milliseconds`,
		"when user \"open\ntext a": "line 1: \"open: not a quoted text",
	} {
		s := modeltest.New(t)
		if err := s.Script(script); err == nil || err.Error() != "script: "+want {
			t.Errorf("%q: %v, want %s", script, err, want)
		}
	}
}
