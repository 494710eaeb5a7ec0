package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// TestRecordedSecrets has a tool print a key, an agent remember it, and a model
// summarize it. Under each policy it looks for the key in every file, response,
// event, log line, and request to the model.
func TestRecordedSecrets(t *testing.T) {
	const prefix, rest = "ghp_", "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	key := prefix + rest
	for policy, want := range map[string]struct {
		kept, remembered string
		secret           bool // the key is stored
	}{
		"default": {`"stdout":"[redacted: github-token]"}`, "failed to save entry: the text of key contains a secret: github-token at line 1, byte 1; nothing was written", false},
		"redact":  {`"stdout":"[redacted: github-token]"}`, "remembered: key", false},
		"refuse":  {"[not stored: the text contains a secret: github-token at line 1, byte 38]", "failed to save entry: ", false},
		"warn":    {`"stdout":"` + key + `"}`, "remembered: key", true},
		"off":     {`"stdout":"` + key + `"}`, "remembered: key", true},
	} {
		t.Run(policy, func(t *testing.T) {
			m := modeltest.New(t, modeltest.Call(tool.Bash, `{"command":"printf %s%s `+prefix+` `+rest+`"}`), modeltest.Say("done"),
				modeltest.Call(tool.Remember, fmt.Sprintf(`{"name":"key","content":%q}`, key)), modeltest.Say("done"), modeltest.Say("The key is "+key+"."))
			var out, log found
			h := home(t)
			s := serve(t, h, scripted(m)+"[memory]\nsecrets = \""+policy+"\"\n[tools.bash]\napprove = \"off\"\n", func(o *Options) {
				o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			ctx, cancel := context.WithCancel(t.Context())
			var events atomic.Int64
			ended := make(chan bool)
			go func() { // ends with ctx
				defer close(ended)
				for e, err := range op.FollowEvents.All(ctx, s.client(), op.EventFilter{}) {
					if err != nil {
						return
					}
					fmt.Fprintf(&out, "%+v\n", e)
					events.Add(1)
				}
			}()
			gate.Until(t, "a subscriber exists", func() bool { return s.events.count.Load() == 1 })
			for _, r := range s.ask(stream(&pb.StreamMsg{Content: "print it"})) {
				b, err := proto.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				out.Write(b)
			}
			if r := s.one(send(&pb.SendMsg{Content: "remember it"})).GetResponse(); r == nil {
				t.Fatal("no response")
			}
			lines := strings.Join(s.lines("crab_user_1"), "\n")
			if !strings.Contains(lines, want.kept) || !strings.Contains(lines, "tool "+want.remembered) {
				t.Errorf("the session has %s", lines)
			}
			_, _ = s.compact(1)
			cancel()
			<-ended
			s.stop()
			_ = filepath.WalkDir(h, func(name string, e fs.DirEntry, err error) error {
				if err == nil && e.Type() == 0 {
					b, _ := os.ReadFile(name)
					out.Write(b)
				}
				return nil
			})
			text := out.text()
			// The arguments of the model's call are its own text.
			for _, quote := range []string{`"`, `\"`} {
				text = strings.ReplaceAll(text, "content"+quote+":"+quote+key, "")
			}
			if strings.Contains(text, key) != want.secret || strings.Contains(log.text(), key) {
				i := strings.Index(text, key)
				t.Errorf("key found %v, in the log %v: %q", i >= 0, strings.Contains(log.text(), key), text[max(0, i-200):min(len(text), max(0, i)+200)])
			}
		})
	}
}
