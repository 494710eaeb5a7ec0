package main

import (
	"context"
	"fmt"
	"io"

	"crabmem/daemon/agent"
)

const agentScript = `
when user hello
words Hello! I am a crab on a beach.

when user you
words You said hello, and I am still a crab.
`

// runAgent talks to an agent without tools. The session is in memory.
func runAgent(ctx context.Context, w io.Writer, url string) error {
	m, err := models(url)
	if err != nil {
		return err
	}
	defer m.Close()
	r := agent.NewRunner(m, agent.Hooks{})
	a := r.Build(agent.Agent{Name: "crab", Prompt: "You are a crab on a beach."})
	s := &agent.Session{}
	for _, text := range []string{"hello", "who are you?"} {
		fmt.Fprintln(w, ">", text)
		for e, err := range r.Run(ctx, a, s, agent.Input{Content: text}) {
			if err != nil {
				return err
			}
			show(w, &e)
		}
	}
	fmt.Fprintln(w, len(s.Messages), "messages in the session")
	return nil
}
