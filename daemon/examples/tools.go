package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/tool"
)

const toolsScript = `
when user noon
call current_time {"zone":"Europe/Berlin"}
reply
words No, it is ten past two in Berlin.
`

// currentTime is a tool: a function, and a struct for its arguments.
func currentTime(now func() time.Time) tool.Tool {
	type arguments struct {
		Zone string `json:"zone" jsonschema:"such as Europe/Berlin"`
	}
	return tool.New("current_time", "Return the time in a zone.", func(_ context.Context, _ tool.Call, in arguments) (string, error) {
		zone, err := time.LoadLocation(in.Zone)
		if err != nil {
			return "", err
		}
		return now().In(zone).Format(time.DateTime), nil
	})
}

// exampleTime makes the output of the examples the same at each run.
func exampleTime() time.Time { return time.Date(2026, 4, 14, 12, 10, 0, 0, time.UTC) }

// runTools gives an agent a tool.
func runTools(ctx context.Context, w io.Writer, url string) error {
	m, err := models(url)
	if err != nil {
		return err
	}
	defer m.Close()
	r := agent.NewRunner(m, agent.Hooks{RegisterTools: func(s *tool.Set) { s.Add(currentTime(exampleTime)) }})
	a := r.Build(agent.Agent{Name: "clock", Prompt: "You tell the time.", Scope: tool.Scope{Tools: tool.Only("current_time")}})
	fmt.Fprintln(w, "> is it noon in Berlin?")
	for e, err := range r.Run(ctx, a, &agent.Session{Scope: tool.Unbounded()}, agent.Input{Content: "is it noon in Berlin?"}) {
		if err != nil {
			return err
		}
		show(w, &e)
	}
	return nil
}
