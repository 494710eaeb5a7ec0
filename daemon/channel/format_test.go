package channel_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/op"
)

// TestFormat: an agent's answer has formatting, and notices and questions do not. A
// text that the API refuses, or that is too long with formatting, is sent without.
func TestFormat(t *testing.T) {
	long := "- a" + strings.Repeat("\nb", 1900) // each line is indented
	for name, c := range map[string]struct {
		format, text, html, visible string
		fault                       telegramtest.Fault
	}{
		"html":    {"html", "**a** <b", "<b>a</b> &lt;b", "a <b", ""},
		"plain":   {"plain", "**a** <b", "", "**a** <b", ""},
		"refused": {"html", "**a** <b", "", "**a** <b", telegramtest.BadHTML},
		"lost":    {"html", "**a** <b", "", missing, telegramtest.CutBefore},
		"long":    {"html", long, "", long, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.format = c.format
				r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
					r.d.ask(ctx, m, agent.Question{Question: "run *x*?"})
					return c.text, nil
				}
				r.start()
				r.api.Text(7, "x")
				r.want("run *x*?")
				r.api.Queue("sendMessage", c.fault)
				r.api.Text(7, "yes")
				time.Sleep(time.Minute)
				r.want("run *x*?", c.visible)
				for i, want := range []string{"", c.html}[:len(r.api.Sent())] {
					if s := r.api.Sent()[i]; s.HTML != want {
						t.Errorf("message %d: %q, want %q", i, s.HTML, want)
					}
				}
			})
		})
	}
}
