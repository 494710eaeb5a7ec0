package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	store "crabmem/daemon/secret"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// found collects everything that the daemon says.
type found struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (f *found) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.b.Write(b)
}

func (f *found) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.b.String()
}

// TestPlantedSecrets puts secrets wherever they may be, and looks for them in
// everything that comes out: answers, errors, events, the log with its details,
// sessions and the store.
func TestPlantedSecrets(t *testing.T) {
	const mark = "pLaNtEd"
	secret := func(of string) string { return "sk-" + mark + "-" + of + "-0123456789abcdef" }
	echo := func(status int) modeltest.Reply {
		return modeltest.Status(status, "Incorrect API key provided: "+secret("env")+". Authorization: Bearer "+secret("env"))
	}
	m := modeltest.New(t, modeltest.Say("hello"), modeltest.Call("bash", `{"command":"echo hi"}`), modeltest.Say("done"),
		echo(401), echo(403), echo(400), echo(500), modeltest.Reply{}.Text("part").Cut(), modeltest.Reply{}.Garbage(), modeltest.Say("a summary"), modeltest.Say("again"))
	stored := modeltest.New(t, modeltest.Say("hello"), modeltest.Status(401, "Incorrect API key provided: "+secret("stored")))
	h := home(t)
	vault := &store.Store{FS: vfs.OS{}, Home: h}
	if _, _, err := vault.Set("stored", secret("stored")); err != nil {
		t.Fatal(err)
	}
	config := `[env]
INNER = "` + secret("table") + `"
STORED = "secret:stored"
[provider.stored]
kind = "openai-compatible"
base_url = "` + stored.URL + `"
api_key = "secret:stored"
models = ["stored"]
max_retries = 0
[provider.test]
kind = "openai-compatible"
base_url = "` + m.URL + `"
api_key = "${PLANTED_KEY}"
models = ["script"]
max_retries = 0
[provider.file]
kind = "openai-compatible"
base_url = "http://127.0.0.1:1/v1"
api_key_file = "keys/file"
models = ["unreachable"]
max_retries = 0
[provider.plain]
kind = "bedrock"
region = "eu-central-1"
access_key = "` + secret("access") + `"
secret_key = "` + secret("aws") + `"
models = ["nova"]
[mcps.server]
command = "server"
args = ["--token", "${PLANTED_KEY}", "--key", "secret:stored", "${secret:stored}", "--api-key=` + secret("flag") + `", "--password", "` + secret("word") + `", "https://u:` + secret("user") + `@h/?token=` + secret("query") + `"]
[mcps.server.env]
TOKEN = "` + secret("mcp") + `"
[mcps.address]
url = "http://u:` + secret("password") + `@127.0.0.1:1/mcp?token=` + secret("address") + `"
[tcp]
listen = "127.0.0.1:0"
token_file = "keys/token"
[system.crab]
model = "script"
`
	for name, text := range map[string]string{"keys/file": secret("file"), "keys/token": secret("token")} {
		name = filepath.Join(h, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out found
	s := serve(t, h, config, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
		o.Getenv = func(name string) string {
			if name == "PLANTED_KEY" {
				return secret("env")
			}
			return ""
		}
	})
	ask := func(m *pb.ClientMessage) []*pb.ServerMessage {
		all := s.ask(m)
		for _, r := range all {
			b, err := proto.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b)
		}
		return all
	}
	ctx, cancel := context.WithCancel(t.Context())
	var events atomic.Int64
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for e, err := range op.FollowEvents.All(ctx, s.client(), op.EventFilter{}) {
			if err != nil {
				return
			}
			fmt.Fprintf(&out, "%+v %+v\n", e, e.Err)
			events.Add(1)
		}
	}()
	gate.Until(t, "a subscriber exists", func() bool { return s.events.count.Load() == 1 })

	id := uint64(1)
	for range 8 {
		ask(stream(&pb.StreamMsg{Content: "hi"}))
		ask(send(&pb.SendMsg{Content: "hi"}))
	}
	for range 2 {
		ask(callMessage(t, "runs.send", op.Message{Content: "hi", Model: "stored", New: true}))
	}
	for _, q := range stored.Requests() {
		if got := q.Header.Get("Authorization"); got != "Bearer "+secret("stored") || bytes.Contains(q.Body, []byte(mark)) {
			t.Errorf("the model server received %q", got)
		}
	}
	if n := len(stored.Requests()); n < 2 {
		t.Errorf("%d requests with the stored key", n)
	}
	ask(callMessage(t, "runs.send", op.Message{Content: "hi", Model: "unreachable"}))
	for _, m := range []*pb.ClientMessage{
		{Msg: &pb.ClientMessage_GetConfig{GetConfig: &pb.GetConfig{}}},
		{Msg: &pb.ClientMessage_GetStats{GetStats: &pb.GetStats{}}},
		callMessage(t, "daemon.hello", op.None{}),
		{Msg: &pb.ClientMessage_Sessions{Sessions: &pb.Sessions{}}},
		{Msg: &pb.ClientMessage_Compact{Compact: &pb.CompactMsg{Session: id}}},
		callMessage(t, "models.list", op.None{}),
		callMessage(t, "agents.list", op.None{}),
		{Msg: &pb.ClientMessage_ListCrons{ListCrons: &pb.ListCronsMsg{}}},
		callMessage(t, "models.switch", op.ModelName{Name: "none"}),
		callMessage(t, "sessions.search", op.SessionQuery{Query: "key authorization", Tools: true}),
		callMessage(t, "entries.remember", note("a", "b")),
		callMessage(t, "entries.recall", op.Question{Query: "b"}),
		callMessage(t, "models.add", model.Provider{Name: "more", Kind: "openai-compatible", BaseURL: m.URL,
			APIKey: secret("added"), Models: []string{"m2"}}),
		callMessage(t, "models.add", model.Provider{Name: "more", Kind: "wrong", BaseURL: "http://u:" + secret("url") + "@h/v1",
			APIKey: secret("added"), Models: []string{"m2"}}),
		callMessage(t, "models.add", model.Provider{Name: "odd", Kind: "openai-compatible", BaseURL: "http://u:" + secret("url") + "@127.0.0.1:1/v1",
			APIKey: secret("added"), Models: []string{"m3"}}),
		callMessage(t, "models.add", model.Provider{Name: "bad", Kind: "openai-compatible", BaseURL: m.URL,
			APIKey: secret("control") + "\n", Models: []string{"m4"}}),
		callMessage(t, "models.list", op.None{}),
		{Msg: &pb.ClientMessage_SetConfig{SetConfig: &pb.SetConfigMsg{Config: `{"provider":{"test":{"api_key":["` + secret("list") + `"]}}}`}}},
		{Msg: &pb.ClientMessage_SetConfig{SetConfig: &pb.SetConfigMsg{Config: `{"provider":{"test":{"api_key":"` + secret("broken") + `"`}}},
		{Msg: &pb.ClientMessage_SetConfig{SetConfig: &pb.SetConfigMsg{Config: `{"env":{"X":"` + secret("set") + `"},"nothing":1}`}}},
		{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}},
	} {
		ask(m)
	}
	// Files that cannot be read, with a secret in the bad line.
	for _, bad := range []string{
		"[provider.test]\napi_key = \"" + secret("unended") + "\n",
		"[provider.test]\napi_key = " + secret("bare") + "\n",
		"[provider.test]\napi_key = [\"" + secret("list") + "\"]\n",
		"[provider.test]\napi_key = \"" + secret("x") + "\"\nbase_url = \"http://u:" + secret("url") + "@[::bad/v1\"\nmodels = [\"a\"]\n",
		"[env]\n" + secret("name") + " = 7 7\n",
		"[env]\nX = { y = \"" + secret("deep") + "\" }\n",
		"[mcps.a.env]\nX = [\"" + secret("mcp list") + "\"]\n",
		"[provider.test]\nmodels = [\"a\"]\napi_key = \"secret:missing\"\nbase_url = \"http://h/${secret:stored}\"\n",
	} {
		if err := os.WriteFile(filepath.Join(h, "config.toml"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		ask(&pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}})
		ask(&pb.ClientMessage{Msg: &pb.ClientMessage_GetConfig{GetConfig: &pb.GetConfig{}}})
	}
	// A wrong token, which may be a secret of another service.
	port, err := os.ReadFile(filepath.Join(h, "run", "crabtalk.port"))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := wire.Dial(ctx, wire.Addr{Network: "tcp", Address: "127.0.0.1:" + string(port), Token: secret("wrong")}); err != nil {
		out.Write([]byte(err.Error()))
	} else {
		c.Close()
	}
	gate.Until(t, "ten events", func() bool { return events.Load() >= 10 })
	cancel()
	<-ended
	s.stop()
	files := 0
	err = filepath.WalkDir(h, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(name, filepath.Join(h, "keys")) || strings.HasPrefix(e.Name(), "config.toml") || e.Type() != 0 {
			return err
		}
		b, err := os.ReadFile(name)
		files++
		out.Write(b)
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
	text := out.text()
	for at := strings.Index(text, mark); at >= 0; {
		from, to := max(0, at-150), min(len(text), at+60)
		t.Errorf("a secret: %q", text[from:to])
		next := strings.Index(text[to:], mark)
		if next < 0 {
			break
		}
		at = to + next
	}
	t.Logf("secrets: %d bytes of answers, events, log and %d files searched", len(text), files)
}
