package chat

import (
	"testing"

	"crabmem/daemon/wire/pb"
)

func TestDialog(t *testing.T) {
	colours := &pb.AskQuestion{Question: "Which \"one\"?", Options: []*pb.AskOption{{Label: "red"}, {Label: "blue"}}}
	sizes := &pb.AskQuestion{Question: "Sizes?", MultiSelect: true, Options: []*pb.AskOption{{Label: "small"}, {Label: "large"}}}
	free := &pb.AskQuestion{Question: "Why?"}
	for _, tc := range []struct {
		questions []*pb.AskQuestion
		lines     []string
		refused   int
		want      string
	}{
		{[]*pb.AskQuestion{colours}, []string{"2"}, 0, `{"Which \"one\"?":"blue"}`},
		{[]*pb.AskQuestion{colours}, []string{"", "0", "3", "RED"}, 3, `{"Which \"one\"?":"red"}`},
		{[]*pb.AskQuestion{colours}, []string{" green <please> "}, 0, `{"Which \"one\"?":"green <please>"}`},
		{[]*pb.AskQuestion{sizes}, []string{",", "1,9", "2, 1, 2, other"}, 2, `{"Sizes?":["large","small","other"]}`},
		{[]*pb.AskQuestion{free, colours}, []string{"3", "1"}, 0, `{"Why?":"3","Which \"one\"?":"red"}`},
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
