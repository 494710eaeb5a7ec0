package chat

import (
	"testing"

	"crabmem/daemon/agent"
)

func TestDialog(t *testing.T) {
	colours := agent.Question{Question: "Which \"one\"?", Options: []agent.Option{{Label: "red"}, {Label: "blue"}}}
	sizes := agent.Question{Question: "Sizes?", MultiSelect: true, Options: []agent.Option{{Label: "small"}, {Label: "large"}}}
	free := agent.Question{Question: "Why?"}
	for _, tc := range []struct {
		questions []agent.Question
		lines     []string
		refused   int
		want      string
	}{
		{[]agent.Question{colours}, []string{"2"}, 0, `{"Which \"one\"?":"blue"}`},
		{[]agent.Question{colours}, []string{"", "0", "3", "RED"}, 3, `{"Which \"one\"?":"red"}`},
		{[]agent.Question{colours}, []string{" green <please> "}, 0, `{"Which \"one\"?":"green <please>"}`},
		{[]agent.Question{sizes}, []string{",", "1,9", "2, 1, 2, other"}, 2, `{"Sizes?":["large","small","other"]}`},
		{[]agent.Question{free, colours}, []string{"3", "1"}, 0, `{"Why?":"3","Which \"one\"?":"red"}`},
	} {
		d := &dialog{questions: tc.questions}
		refused := 0
		for _, l := range tc.lines {
			if !d.answer(l) {
				refused++
			}
		}
		if d.more() || refused != tc.refused || d.reply() != tc.want {
			t.Errorf("%q: %d refused, %s; want %d, %s", tc.lines, refused, d.reply(), tc.refused, tc.want)
		}
	}
}
