package channel_test

import (
	"testing"

	"crabmem/daemon/agent"
)

// TestUnusualLabels: the button of a label that is a number answers with the label, and that of an
// empty label with its number.
func TestUnusualLabels(t *testing.T) {
	for label, want := range map[string]string{"2": "2", " ": "1"} {
		bubble(t, func(r *rig) {
			r.asks(agent.Question{Question: "How many?", Options: []agent.Option{{Label: label}, {Label: "4"}}})
			r.start()
			r.api.Text(7, "tea")
			r.press(0)
			if sent := r.sent(); sent[len(sent)-1] != "you get "+want {
				t.Errorf("%q: sent %q", label, sent)
			}
		})
	}
}
