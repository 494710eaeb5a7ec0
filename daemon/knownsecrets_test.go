package daemon

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/model/modeltest"
	store "crabmem/daemon/secret"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// TestRedactedReplies: a model writes a token of a known form and a value of the store of
// secrets, in pieces, in its answer, its thoughts, and a call; a tool prints the value in
// several forms. Neither is in a response, an event, the log, or the session. The value
// was set after the daemon began.
func TestRedactedReplies(t *testing.T) {
	const token, value = "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE", "correct-horse-9"
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + value))
	hex := fmt.Sprintf("%x", value)
	for policy, isKept := range map[string]bool{"default": false, "redact": false, "refuse": false, "off": true} {
		t.Run(policy, func(t *testing.T) {
			m := modeltest.New(t)
			var log found
			h, dir := home(t), t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "leak.txt"), []byte("basic "+encoded+"\nhex "+hex+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serve(t, h, scripted(m)+"[memory]\nsecrets = \""+policy+"\"\n", func(o *Options) {
				o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				o.Dir = dir
			})
			vault := &store.Store{FS: vfs.OS{}, Home: h}
			if _, _, err := vault.Set("later", value); err != nil {
				t.Fatal(err)
			}
			said := modeltest.Reply{}.Think("use ", token[:7], token[7:], ", or "+value[:4], value[4:]).Text("The token is gh", token[2:20], token[20:], " and "+value[:9], value[9:]+".")
			m.Queue(said.Call("read", `{"path":"leak.txt","note":"`+value+`"}`), said, said)
			var out bytes.Buffer
			for _, q := range []*pb.ClientMessage{stream(&pb.StreamMsg{Content: "hi"}), send(&pb.SendMsg{Content: "hi"})} {
				for _, r := range s.ask(q) {
					b, err := proto.Marshal(r)
					if err != nil {
						t.Fatal(err)
					}
					out.Write(b)
					if delta := r.GetStream().GetChunk().GetContent(); delta != "" {
						out.WriteString(delta)
					}
				}
			}
			s.log.Error("a call failed", "error", fmt.Errorf("header %s", encoded), slog.Group("of", "text", value))
			s.stop()
			err := filepath.WalkDir(filepath.Join(h, "sessions"), func(name string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				b, err := os.ReadFile(name)
				for line := range strings.Lines(string(b)) {
					if !strings.Contains(line, `"tool_calls"`) { // which executed as the model wrote it
						out.WriteString(line)
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			text := out.String()
			for what, secret := range map[string]string{"token": token, "value": value, "hex": hex, "base64": encoded[8:20]} {
				if strings.Contains(text, secret) != isKept {
					t.Errorf("%s: in an output %v, want %v: %q", what, !isKept, isKept, text)
				}
				if strings.Contains(log.text(), secret) {
					t.Errorf("%s: in the log: %s", what, log.text())
				}
			}
			if !isKept && (!strings.Contains(text, "The token is [redacted: github-token] and [redacted: stored-secret].") || !strings.Contains(text, "[redacted: stored-secret]")) {
				t.Errorf("%q", text)
			}
		})
	}
}
