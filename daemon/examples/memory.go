package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"crabmem/crmem"
	"crabmem/daemon/agent"
	"crabmem/daemon/op"
)

const memoryScript = `
when user deploy
call recall {"query":"deploy"}
reply
words Build, tag, then push.

when user Fridays
call remember {"name":"release days","content":"no releases on Fridays","aliases":["Friday"]}
reply
words Noted.
`

// runMemory stores a note, which the agent finds, and reads the note that the agent stores.
func runMemory(ctx context.Context, w io.Writer, url string) (err error) {
	h, err := open(ctx, url, agent.Hooks{}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := op.Remember.Do(ctx, h, op.Note{Remember: crmem.Remember{Name: "deploy", Content: "build, tag, push"}}); err != nil {
		return err
	}
	if err := h.ask(ctx, w, "crab", "how do we deploy?", "never release on Fridays"); err != nil {
		return err
	}
	a, err := op.Recall.Do(ctx, h, op.Question{Query: "when do we release?", Limit: 1})
	if err != nil {
		return err
	}
	for _, hit := range a.Hits {
		fmt.Fprintf(w, "%s: %s\n", hit.Name, *hit.Content)
	}
	return nil
}
