package chat

import (
	"testing"

	"crabmem/daemon/client"
)

func TestDialog(t *testing.T) {
	colours := client.Question{Question: "Which \"one\"?", Options: []client.Option{{Label: "red"}, {Label: "blue"}}}
	sizes := client.Question{Question: "Sizes?", MultiSelect: true, Options: []client.Option{{Label: "small"}, {Label: "large"}}}
	free := client.Question{Question: "Why?"}
	for _, tc := range []struct {
		questions []client.Question
		lines     []string
		refused   int
		want      string
	}{
		{[]client.Question{colours}, []string{"2"}, 0, `{"Which \"one\"?":"blue"}`},
		{[]client.Question{colours}, []string{"", "0", "3", "RED"}, 3, `{"Which \"one\"?":"red"}`},
		{[]client.Question{colours}, []string{" green <please> "}, 0, `{"Which \"one\"?":"green <please>"}`},
		{[]client.Question{sizes}, []string{",", "1,9", "2, 1, 2, other"}, 2, `{"Sizes?":["large","small","other"]}`},
		{[]client.Question{free, colours}, []string{"3", "1"}, 0, `{"Why?":"3","Which \"one\"?":"red"}`},
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
