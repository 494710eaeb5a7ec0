package external

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// scripted is an agent of ACP for the tests. How it behaves is a word.
type scripted struct {
	how string
	in  *bufio.Scanner
	out io.Writer
	end bool // the client has closed a pipe
}

// message is what an agent receives.
type message struct {
	JSONRPC string
	ID      *json.RawMessage
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   *struct{ Code int }
}

// agent answers requests until its input ends.
func agent(how string, in io.Reader, out io.Writer) {
	a := &scripted{how: how, in: bufio.NewScanner(in), out: out}
	a.in.Buffer(nil, 1<<20)
	for m := a.read(); m.Method != ""; m = a.read() {
		a.answer(m)
	}
}

// read returns the next message, or none at the end.
func (a *scripted) read() (m message) {
	if a.end = !a.in.Scan(); !a.end {
		if err := json.Unmarshal(a.in.Bytes(), &m); err != nil || m.JSONRPC != "2.0" {
			a.broken("invalid message", a.in.Text())
		}
	}
	return m
}

// broken writes what the client did wrong as the text of the turn.
func (a *scripted) broken(what, text string) {
	a.update("agent_message_chunk", fmt.Sprintf(`"content":{"type":"text","text":%q}`, "BROKEN: "+what+": "+text))
}

func (a *scripted) expect(m message, want string) {
	if got := string(m.Params); got != want {
		a.broken(m.Method, got)
	}
}

func (a *scripted) line(text string) {
	if _, err := io.WriteString(a.out, text+"\n"); err != nil {
		a.end = true
	}
}

func (a *scripted) result(m message, result string) {
	a.line(`{"jsonrpc":"2.0","id":` + string(*m.ID) + `,"result":` + result + `}`)
}

func (a *scripted) update(kind, fields string) {
	a.line(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"` + kind + `",` + fields + `}}}`)
}

func (a *scripted) text(text string) {
	a.update("agent_message_chunk", `"content":{"type":"text","text":"`+text+`"}`)
}

// ask sends a request, and returns the response.
func (a *scripted) ask(method, params string) message {
	a.line(`{"jsonrpc":"2.0","id":"q1","method":"` + method + `","params":` + params + `}`)
	return a.read()
}

func (a *scripted) answer(m message) {
	switch m.Method {
	case "initialize":
		a.expect(m, `{"clientCapabilities":{},"clientInfo":{"name":"crabmem","version":"test"},"protocolVersion":1}`)
		switch a.how {
		case "silent":
			return
		case "version":
			a.result(m, `{"protocolVersion":2}`)
		case "null":
			a.result(m, `null`)
		case "list":
			a.result(m, `[1]`)
		case "noise":
			a.line("Starting\n\n{\"level\":\"info\"}\n[1,2]")
			a.result(m, `{"protocolVersion":1,"agentCapabilities":{"loadSession":null},"authMethods":[]}`)
		case "garbage":
			for range maxNoise + 1 {
				a.line("progress 50%")
			}
		case "oversized":
			a.line(strings.Repeat(" ", maxMessage+1))
		case "values":
			a.line(`{"jsonrpc":"2.0","id":[` + strings.Repeat("0,", 1<<18) + "0]}")
		case "load":
			a.result(m, `{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true}},"agentInfo":{"name":"a","version":"1"}}`)
		default:
			a.result(m, `{"protocolVersion":1,"agentCapabilities":{}}`)
		}
	case "session/new":
		a.expect(m, `{"cwd":"/","mcpServers":[]}`)
		switch a.how {
		case "login":
			a.line(`{"jsonrpc":"2.0","id":` + string(*m.ID) + `,"error":{"code":-32000,"message":"Authentication required","data":{"details":"run login"}}}`)
		case "long ID":
			a.result(m, `{"sessionId":"`+strings.Repeat("s", maxID+1)+`"}`)
		case "no ID":
			a.result(m, `{}`)
		default:
			a.result(m, `{"sessionId":"s1","modes":{"currentModeId":"ask"}}`)
		}
	case "session/load":
		a.expect(m, `{"cwd":"/","mcpServers":[],"sessionId":"s1"}`)
		a.update("user_message_chunk", `"content":{"type":"text","text":"earlier"}`)
		a.text("an old answer")
		a.update("tool_call", `"toolCallId":"t","title":"an old tool"`)
		a.result(m, `null`)
	case "session/prompt":
		a.expect(m, `{"prompt":[{"text":"run the tests","type":"text"}],"sessionId":"s1"}`)
		a.prompt(m)
	default:
		a.broken("unexpected request", m.Method)
	}
}

// prompt is the turn.
func (a *scripted) prompt(m message) {
	stop := "end_turn"
	switch a.how {
	case "refusal", "max_tokens", "max_turn_requests", "cancelled", "tired":
		stop = a.how
		a.text("so far")
	case "dies":
		a.text("so far")
		fmt.Fprintln(os.Stderr, "panic: out of ideas")
		os.Exit(7)
	case "leaves":
		a.text("so far")
		holdOpen()
		os.Exit(0)
	case "permission":
		r := a.ask("session/request_permission", `{"sessionId":"s1","toolCall":{"toolCallId":"t","title":"rm"},"options":[{"optionId":"1","name":"a","kind":"allow_always"},`+
			`{"optionId":"2","name":"b","kind":"allow_once"},{"optionId":"3","name":"c","kind":"reject_always"},{"optionId":"4","name":"d","kind":"reject_once"}]}`)
		text := string(r.Result)
		for _, options := range []string{`[{"optionId":"1","name":"a","kind":"allow_always"},{"optionId":"3","name":"c","kind":"reject_always"}]`, `[]`, `7`, `[{"optionId":"","kind":"reject_once"}]`} {
			text += string(a.ask("session/request_permission", `{"sessionId":"s1","toolCall":{},"options":`+options+`}`).Result)
		}
		a.text(strings.ReplaceAll(text, `"`, `'`))
	case "files":
		text := ""
		for _, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create", "session/update", ""} {
			if r := a.ask(method, `{"sessionId":"s1","path":"/etc/passwd"}`); r.Error != nil && string(*r.ID) == `"q1"` {
				text += fmt.Sprint(method, r.Error.Code, " ")
			}
		}
		a.text(text)
	case "stays":
		a.text("so far")
		a.update("tool_call", `"toolCallId":"t","title":"working"`)
		for !a.end {
			a.read()
		}
		return
	case "cancels":
		a.text("so far")
		a.update("tool_call", `"toolCallId":"t","title":"working"`)
		c := a.read()
		if c.Method != "session/cancel" || string(c.Params) != `{"sessionId":"s1"}` || c.ID != nil {
			a.broken("cancel", c.Method+string(c.Params))
		}
		r := a.ask("session/request_permission", `{"options":[{"optionId":"1","kind":"allow_once"},{"optionId":"2","kind":"reject_once"}]}`)
		a.text(strings.ReplaceAll(string(r.Result), `"`, `'`))
		stop = "cancelled"
	case "slow":
		for range 5 {
			time.Sleep(50 * time.Minute)
			a.update("agent_thought_chunk", `"content":{"type":"text","text":"hm"}`)
		}
		for !a.end {
			a.read()
		}
		return
	case "finishes": // although it is cancelled
		a.read()
		a.text("done")
	case "deaf":
		for !a.end {
			a.line(`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{}}`)
		}
	case "long":
		for range 100 {
			a.text(strings.Repeat("é", 8<<10))
		}
		a.text(" the end")
	default:
		a.update("agent_thought_chunk", `"content":{"type":"text","text":"hm"}`)
		a.update("plan", `"entries":[]`)
		a.text("12 ")
		a.update("tool_call", `"toolCallId":"t","title":"run \u001b[31mgo\ntest","kind":"execute","content":[{"type":"diff"}]`)
		a.update("tool_call_update", `"toolCallId":"t","title":null,"status":"completed"`)
		a.update("tool_call_update", `"toolCallId":"t","title":7`)
		a.line(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"foreign"}}}}`)
		a.line(`{"jsonrpc":"2.0","method":"session/update","params":[]}`)
		a.line(`{"jsonrpc":"2.0","method":"_vendor/ping"}`)
		a.line(`{"jsonrpc":"2.0","id":99,"result":{"stopReason":"refusal"}}`)
		a.update("agent_message_chunk", `"content":{"type":"image","data":"AA==","mimeType":"image/png"}`)
		a.update("agent_message_chunk", `"content":[]`)
		a.text("passed")
	}
	a.result(m, `{"stopReason":"`+stop+`"}`)
}

// holdOpen starts a program that has the outputs open, in a process group of its own.
func holdOpen() {
	c := exec.Command("sleep", "300")
	c.Stdout, c.Stderr, c.SysProcAttr = os.Stdout, os.Stderr, otherGroup
	if err := c.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Getenv("PIDS"), fmt.Append(nil, c.Process.Pid), 0o600); err != nil {
		panic(err)
	}
}
