package daemon

import (
	"log/slog"
	"strings"
	"testing"
	"time"

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
		title, loaded, logged := "", "", 0
		for began := time.Now(); time.Since(began) < gate.Hang && (title != c.want || loaded != c.want || logged != c.log); time.Sleep(time.Millisecond) {
			i, err := s.describe(r.StoredId)
			if err != nil {
				t.Fatal(err)
			}
			title, loaded, logged = i.Title, s.loaded.List()[0].Title(), strings.Count(log.text(), `msg="title session"`)
		}
		if title != c.want || loaded != c.want || logged != c.log {
			t.Errorf("title %q, of the loaded session %q, want %q; %d log lines:\n%s", title, loaded, c.want, logged, log.text())
		}
		if n := len(m.Requests()); n != 2 {
			t.Errorf("%d requests", n)
		}
		s.stop()
	}
}
