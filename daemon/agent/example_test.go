package agent_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// parrot is a model that repeats its input, and calls a tool if the input asks
// for the time.
type parrot struct{}

func (parrot) Send(ctx context.Context, q model.Request) (*model.Response, error) {
	return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: "nothing"}, Finish: "stop"}, nil
}

func (parrot) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		last := q.Messages[len(q.Messages)-1]
		if last.Role == record.RoleUser && strings.Contains(last.Content, "time") {
			yield(model.Chunk{Calls: []model.CallDelta{{ID: "1", Name: "clock", Arguments: "{}"}}, Finish: "tool_calls"}, nil)
			return
		}
		yield(model.Chunk{Content: "you said: " + last.Content, Finish: "stop"}, nil)
	}
}

func models() *model.Registry {
	r, err := model.NewRegistry(model.Network{}, nil, "")
	if err != nil {
		panic(err)
	}
	if err := r.AddBackend("parrot", 8192, parrot{}); err != nil {
		panic(err)
	}
	if err := r.Switch("parrot"); err != nil {
		panic(err)
	}
	return r
}

// The loop runs without a daemon, a file or a hook.
func Example() {
	r := agent.NewRunner(models(), agent.Hooks{})
	a := r.Build(agent.Agent{Name: "pia", Prompt: "You are a parrot."})
	s := &agent.Session{}
	for e, err := range r.Run(context.Background(), a, s, agent.Input{Content: "hello"}) {
		switch {
		case err != nil:
			fmt.Println("failed:", err)
		case e.Kind == agent.TextDelta:
			fmt.Println(e.Content)
		}
	}
	fmt.Println(len(s.Messages), "messages")
	// Output:
	// you said: hello
	// 2 messages
}

// Every hook, in the order in which they are called.
func ExampleHooks() {
	h := agent.Hooks{
		RegisterTools: func(s *tool.Set) {
			fmt.Println("register tools")
			s.Add(tool.New("clock", "Tells the time.", func(context.Context, tool.Call, struct{}) (string, error) { return "noon", nil }))
		},
		BuildAgent: func(a *agent.Agent) {
			fmt.Println("build", a.Name)
			a.Scope = tool.Scope{Tools: tool.Only("clock")}
		},
		Preprocess: func(t *agent.Turn) string {
			fmt.Println("preprocess")
			return strings.TrimPrefix(t.Content, "/ask ")
		},
		BeforeRun: func(_ context.Context, t *agent.Turn) []sessionlog.Message {
			fmt.Println("before run:", t.Content)
			return []sessionlog.Message{{Role: record.RoleUser, Content: "<today>Saturday</today>"}}
		},
		Event: func(t *agent.Turn, e agent.Event) {
			switch e.Kind {
			case agent.ToolResult:
				fmt.Println("event: the", e.Tool, "says", e.Result.Output)
			case agent.Done:
				fmt.Println("event:", e.Content)
			}
		},
	}
	r := agent.NewRunner(models(), h)
	a := r.Build(agent.Agent{Name: "pia"})
	s := &agent.Session{Scope: tool.Unbounded()}
	for _, err := range r.Run(context.Background(), a, s, agent.Input{Content: "/ask the time"}) {
		if err != nil {
			fmt.Println("failed:", err)
		}
	}
	for _, m := range s.Messages {
		fmt.Println(m.Role)
	}
	// Output:
	// register tools
	// build pia
	// preprocess
	// before run: the time
	// event: the clock says noon
	// event: you said: noon
	// user
	// assistant
	// tool
	// assistant
}
