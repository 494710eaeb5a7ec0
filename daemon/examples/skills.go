package main

import (
	"context"
	"errors"
	"io"

	"crabmem/daemon/agent"
)

const skillsScript = `
when system You answer in one sentence.
words An animal with ten legs.

when user crab
words A crab is an animal. It has ten legs, and it walks sideways.
`

const conciseSkill = `---
name: concise
description: Shortens an answer. Use it for all questions.
---
Answer with the one fact that matters.
`

// runSkills asks two agents the same: one without a skill, and one that loads a skill.
func runSkills(ctx context.Context, w io.Writer, url string) (err error) {
	h, err := open(ctx, url, agent.Hooks{}, map[string]string{
		"config.toml":             "[agents.concise]\nprompt = \"You answer in one sentence.\"\nskills = [\"concise\"]\n",
		"skills/concise/SKILL.md": conciseSkill,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	return errors.Join(h.ask(ctx, w, "crab", "what is a crab?"), h.ask(ctx, w, "concise", "/concise what is a crab?"))
}
