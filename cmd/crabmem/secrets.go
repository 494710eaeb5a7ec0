package main

import (
	"context"
	"sync"

	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/secret/scan"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

// writeChecked is write for a text that may contain secrets: f gets a store that
// applies the setting [memory] secrets, unless allow is set.
func (c *app) writeChecked(ctx context.Context, command string, create, allow bool, f func(s op.Memory) error) error {
	g := c.guard()
	g.AllowSecrets = allow
	return c.writeGuarded(ctx, command, create, g, f)
}

// guard checks texts by the setting [memory] secrets.
func (c *app) guard() op.Guard {
	return op.Guard{Policy: c.secretsPolicy, Warn: c.Warn, Fix: op.OwnerFix}
}

// secretsPolicy returns the setting [memory] secrets of the home. If the
// configuration is invalid, it returns the default.
func (c *app) secretsPolicy() (scan.Policy, error) {
	home, err := c.homeDir()
	if err != nil {
		return scan.Default, err
	}
	conf, err := config.LoadStructure(c.fs, home, c.Getenv)
	if err != nil {
		return scan.Default, nil
	}
	return conf.Secrets, nil
}

// allowSecretsFlag adds the flag --allow-secrets.
func allowSecretsFlag(cmd *cobra.Command, allow *bool) {
	cmd.Flags().BoolVar(allow, "allow-secrets", false, "permit keys and passwords in the text")
}

// redactItems applies the setting [memory] secrets to the title, the messages, and the
// summaries of an imported conversation, as to those that the daemon records. It
// returns the number of texts that it changed.
func (c *app) redactItems(title *string, items []sessionlog.Item) (n int, err error) {
	policy := sync.OnceValues(c.secretsPolicy)
	record := func(text *string) {
		if err != nil || len(scan.Find(*text)) == 0 {
			return
		}
		var p scan.Policy
		if p, err = policy(); err != nil {
			return
		}
		if kept, _ := p.Record(*text, nil); kept != *text {
			*text = kept
			n++
		}
	}
	record(title)
	for i := range items {
		m := &items[i].Message
		record(&items[i].Summary)
		record(&m.Content)
		record(&m.ReasoningContent)
		for j := range m.ToolCalls {
			record(&m.ToolCalls[j].Function.Arguments)
		}
	}
	return n, err
}

// redactedSecret is the reason that a report of an import lists for a redacted text.
const redactedSecret = "secret, redacted"
