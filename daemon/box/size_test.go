package box

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/fuzz/race"
)

// TestReadable: a Box can read what it wrote, also if each character of the texts is escaped.
func TestReadable(t *testing.T) {
	race.Skip(t)
	r := newRig(t)
	large := strings.Repeat("<", 1<<20)
	for range 10 {
		_, _ = r.Add("k/", "k/waits", "", Message{Content: large}) // the conversation becomes full
		id := r.add("k/answers", "", "x")
		if err := r.Finish("k/answers", id, large); err != nil {
			t.Fatal(err)
		}
	}
	if err := Change(r.m, home, "tg:7", time.Now, func(f *File) bool {
		for i := range 200_000 {
			f.Waiting = append(f.Waiting, Message{ID: messageID("tg:7", fmt.Sprint(i))})
			f.Answers = append(f.Answers, Answer{At: time.Now(), Part: Part{Turn: f.Waiting[i].ID, Kind: Notice, Number: 1, Of: 1, State: Sent, Remote: f.Waiting[i].ID}})
		}
		f.End(len(f.Waiting))
		f.Answer(Answer{Content: "newest"})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	o := r.options()
	for _, o.Dir = range Dirs {
		if _, err := Open(o); err != nil {
			t.Error(err)
		}
	}
}
