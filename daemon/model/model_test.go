package model_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry returns a registry with one provider and a scripted model.
func registry(t *testing.T, p model.Provider) *model.Registry {
	t.Helper()
	p.Name = "scripted"
	if p.Models == nil {
		p.Models = []string{"m1"}
	}
	r, err := model.NewRegistry(model.Network{}, []model.Provider{p}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func ask(text string) model.Request {
	return model.Request{Messages: []sessionlog.Message{{Role: "user", Content: text}}}
}

// collect reads a stream to its end. Calls without a name are left out.
func collect(t *testing.T, r *model.Registry, q model.Request) (*model.Response, error) {
	t.Helper()
	res := &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant}}
	var calls []sessionlog.ToolCall
	var failed error
	for k, err := range r.Stream(t.Context(), q) {
		if failed = err; err != nil {
			break
		}
		res.Message.Content += k.Content
		res.Message.ReasoningContent += k.Reasoning
		for _, d := range k.Calls {
			for d.Index >= len(calls) {
				calls = append(calls, sessionlog.ToolCall{})
			}
			c := &calls[d.Index]
			latest(&c.ID, d.ID)
			latest(&c.Type, d.Type)
			latest(&c.Function.Name, d.Name)
			c.Function.Arguments += d.Arguments
		}
		latest(&res.Finish, k.Finish)
		latest(&res.Model, k.Model)
		latest(&res.Usage, k.Usage)
	}
	for _, c := range calls {
		if c.Function.Name != "" {
			res.Message.ToolCalls = append(res.Message.ToolCalls, c)
		}
	}
	return res, failed
}

// latest sets *v to a value that is not zero.
func latest[T comparable](v *T, by T) {
	if zero := *new(T); by != zero {
		*v = by
	}
}

// TestStreamedEqualsUnstreamed requests every sort of response streamed and unstreamed: they
// are equal.
func TestStreamedEqualsUnstreamed(t *testing.T) {
	long := strings.Repeat("päckchen ", 2000)
	for _, c := range []struct {
		name  string
		reply modeltest.Reply
		want  model.Response
	}{
		{"text", modeltest.Say("hel", "lo"),
			model.Response{Finish: "stop", Message: sessionlog.Message{Content: "hello"}}},
		{"reasoning and usage", modeltest.Reply{}.Think("hm", "m").Text("42").Usage(10, 5),
			model.Response{Finish: "stop", Usage: &model.Usage{Prompt: 10, Completion: 5, Total: 15},
				Message: sessionlog.Message{Content: "42", ReasoningContent: "hmm"}}},
		{"calls", modeltest.Reply{}.Text("look").Call("bash", `{"command":"ls «é»"}`).Call("read", ""),
			model.Response{Finish: "tool_calls", Message: sessionlog.Message{Content: "look", ToolCalls: []sessionlog.ToolCall{
				{ID: "call_1", Type: "function", Function: sessionlog.Function{Name: "bash", Arguments: `{"command":"ls «é»"}`}},
				{ID: "call_2", Type: "function", Function: sessionlog.Function{Name: "read"}},
			}}}},
		{"unknown reason", modeltest.Say("x").Finish("tired"),
			model.Response{Finish: "tired", Message: sessionlog.Message{Content: "x"}}},
		{"dripped", modeltest.Reply{}.Drip(1).Text("ä😀", "\u2028"),
			model.Response{Finish: "stop", Message: sessionlog.Message{Content: "ä😀\u2028"}}},
		{"long", modeltest.Say(long),
			model.Response{Finish: "stop", Message: sessionlog.Message{Content: long}}},
		{"empty", modeltest.Reply{},
			model.Response{Finish: "stop"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Message.Role = "assistant"
			for _, stream := range []bool{true, false} {
				s := modeltest.New(t, c.reply)
				r := registry(t, model.Provider{BaseURL: s.URL})
				got, err := collect(t, r, ask("?"))
				if !stream {
					s = modeltest.New(t, c.reply)
					r = registry(t, model.Provider{BaseURL: s.URL})
					got, err = r.Send(t.Context(), ask("?"))
				}
				if err != nil {
					t.Fatalf("streamed %v: %v", stream, err)
				}
				if d := cmp.Diff(&c.want, got); d != "" {
					t.Errorf("streamed %v: %s", stream, d)
				}
				if q := s.Requests(); len(q) != 1 || q[0].Stream != stream || q[0].LastUser() != "?" {
					t.Errorf("streamed %v: requests %+v", stream, q)
				}
			}
		})
	}
}
