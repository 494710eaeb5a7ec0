package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"crabmem/crmem"
	"crabmem/daemon/agent"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"
)

const everythingScript = `
when system You are the tester.
words All 12 tests pass.

when user release
call current_time {"zone":"Europe/Berlin"}
call recall {"query":"release"}
reply
call delegate {"tasks":[{"agent":"tester","message":"run the tests"}]}
reply
call remember {"name":"release 7","content":"released on 2026-04-14, 12 tests"}
reply
words Release 7 is out: it is Tuesday, and all tests pass.
`

const releaseSkill = `---
name: release
description: Makes a release.
allowed-tools: current_time recall remember delegate
---
1. Check the date and the notes about releases.
2. Let the tester run the tests.
3. Note the release.
`

// runEverything loads a skill that uses a tool of this program, the memory, and another
// agent. Before a full context is compacted, the model may store notes.
func runEverything(ctx context.Context, w io.Writer, url string) (err error) {
	hooks := agent.Hooks{
		RegisterTools: func(s *tool.Set) { s.Add(currentTime(exampleTime)) },
		CompactPrompt: agent.DefaultCompactPrompt + "\nKeep the numbers of releases.\n",
		FlushPrompt:   agent.DefaultFlushPrompt,
	}
	h, err := open(ctx, url, hooks, map[string]string{
		"config.toml":             "[agents.tester]\nprompt = \"You are the tester.\"\ndescription = \"runs tests\"\ntools = []\n",
		"skills/release/SKILL.md": releaseSkill,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := op.Remember.Do(ctx, h, op.Note{Remember: crmem.Remember{Name: "release days", Content: "no releases on Fridays"}}); err != nil {
		return err
	}
	if err := h.ask(ctx, w, "crab", "/release release 7"); err != nil {
		return err
	}
	for e, err := range op.Entries(ctx, h, op.EntryFilter{Kinds: []crmem.Kind{crmem.Note}}) {
		if err != nil {
			return err
		}
		fmt.Fprintln(w, e.Name)
	}
	return nil
}
