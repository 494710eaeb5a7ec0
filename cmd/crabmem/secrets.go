package main

import (
	"sync"

	"crabmem/daemon/secret/scan"
	"crabmem/sessionlog"
)

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
