package daemon

import (
	"log/slog"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/wire/pb"
)

// TestTitles sends a message: the model titles the session after the turn. If the
// model fails, the first line stays, and the log has one line.
func TestTitles(t *testing.T) {
	for _, c := range []struct {
		reply modeltest.Reply
		want  string
		log   int
	}{{modeltest.Say("Ports in use"), "Ports in use", 0}, {modeltest.Status(429, "slow down"), "which port?", 1}} {
		m := modeltest.New(t, modeltest.Say("6688"), c.reply)
		var log found
		s := serve(t, home(t), strings.Replace(scripted(m), `titles = "off"`, `titles = "model"`, 1), func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		r := s.one(send(&pb.SendMsg{Content: "which port?\nplease"})).GetResponse()
		if r.GetContent() != "6688" {
			t.Fatalf("answered %v", r)
		}
		gate.Until(t, "the title "+c.want, func() bool {
			i, err := s.describe(s.stored(r.Session))
			if err != nil {
				t.Fatal(err)
			}
			return i.Title == c.want && s.loaded.List()[0].Title() == c.want && strings.Count(log.text(), `msg="title session"`) == c.log
		})
		if n := len(m.Requests()); n != 2 {
			t.Errorf("%d requests", n)
		}
		s.stop()
	}
}
