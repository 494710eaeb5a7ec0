package kill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/gateway"
	"crabmem/fuzz/internal/model"
	"crabmem/fuzz/seed"
)

// httpClient is a client of a gateway. It repeats each request with its Idempotency-Key
// until it gets a response that is not about a missing daemon or gateway.
type httpClient struct {
	url, key, name string
	n              int
	repeated       int
	entries        map[string]string // contents of the entries that must exist, by name
	turns          []string          // messages that were answered
	hooks          []string          // answers to the messages of the webhook
}

// do sends a request until it is answered, and decodes the response.
func (c *httpClient) do(ctx context.Context, method, path string, body map[string]any, etag string) (status int, out map[string]any, err error) {
	c.n++
	once := fmt.Sprint(c.name, "-", c.n)
	var last string
	for try := 0; ; try++ {
		if ctx.Err() == nil && (status > 0 || err != nil) {
			last = fmt.Sprint(status, " ", out, " ", err)
		}
		if status, out, err = c.once(ctx, method, path, body, etag, once); err == nil && status < 500 && status != http.StatusTooManyRequests {
			if try > 0 {
				c.repeated++
			}
			return status, out, nil
		}
		if ctx.Err() != nil {
			return 0, nil, errors.Join(ctx.Err(), fmt.Errorf("%s %s: %s", method, path, last))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *httpClient) once(ctx context.Context, method, path string, body map[string]any, etag, once string) (int, map[string]any, error) {
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		reader = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, c.url+path, reader)
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if etag != "" {
		q.Header.Set("If-Match", etag)
	}
	if method != http.MethodGet {
		q.Header.Set("Idempotency-Key", once)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer p.Body.Close()
	b, err := io.ReadAll(p.Body)
	if err != nil {
		return 0, nil, err
	}
	out := map[string]any{}
	if len(b) > 0 {
		err = json.Unmarshal(b, &out)
	}
	return p.StatusCode, out, err
}

// write creates, changes, and removes entries, and sends messages, until stop is closed.
func (c *httpClient) write(ctx context.Context, rng *rand.Rand, stop chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		name := fmt.Sprintf("entry %d of %s", i, c.name)
		status, entry, err := c.do(ctx, "POST", "/v1/memories", map[string]any{"name": name, "content": "first"}, "")
		if err != nil || status != http.StatusCreated {
			return fmt.Errorf("create %s: %d %v %w", name, status, entry, err)
		}
		c.entries[name] = "first"
		path := fmt.Sprintf("/v1/memories/%.0f", entry["id"])
		etag := entry["etag"].(string)
		if rng.IntN(2) == 0 {
			if status, entry, err = c.do(ctx, "PUT", path, map[string]any{"content": "second"}, etag); err != nil || status != http.StatusOK {
				return fmt.Errorf("change %s: %d %v %w", name, status, entry, err)
			}
			c.entries[name], etag = "second", entry["etag"].(string)
		}
		if rng.IntN(3) == 0 {
			if status, entry, err = c.do(ctx, "DELETE", path, nil, etag); err != nil || status != http.StatusNoContent {
				return fmt.Errorf("remove %s: %d %v %w", name, status, entry, err)
			}
			delete(c.entries, name)
		}
		if err := c.writeStored(ctx, rng, fmt.Sprintf("stored/%d of %s", i, c.name)); err != nil {
			return err
		}
		if err := c.say(ctx, rng, fmt.Sprintf("hello %d of %s", i, c.name)); err != nil {
			return err
		}
		text := fmt.Sprintf("hook %d of %s", i, c.name)
		status, accepted, err := c.do(ctx, "POST", "/webhook/send", map[string]any{"conversation_id": "c", "content": text}, "")
		if err != nil || status != http.StatusAccepted {
			return fmt.Errorf("send %q: %d %v %w", text, status, accepted, err)
		}
		c.hooks = append(c.hooks, model.Answer(text))
	}
}

// writeStored creates, changes, and removes an entry as a memory of a store.
func (c *httpClient) writeStored(ctx context.Context, rng *rand.Rand, name string) error {
	status, list, err := c.do(ctx, "GET", "/v1/memory_stores", nil, "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("list stores: %d %v %w", status, list, err)
	}
	memories := fmt.Sprintf("/v1/memory_stores/%s/memories", list["data"].([]any)[0].(map[string]any)["id"])
	status, m, err := c.do(ctx, "POST", memories, map[string]any{"path": "/" + name, "content": "first"}, "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("create %s: %d %v %w", name, status, m, err)
	}
	c.entries[name] = "first"
	path := fmt.Sprint(memories, "/", m["id"])
	if rng.IntN(2) == 0 {
		old := map[string]any{"type": "content_sha256", "content_sha256": m["content_sha256"]}
		if status, m, err = c.do(ctx, "POST", path, map[string]any{"content": "second", "path": "/moved/" + name, "precondition": old}, ""); err != nil || status != http.StatusOK {
			return fmt.Errorf("change %s: %d %v %w", name, status, m, err)
		}
		delete(c.entries, name)
		name = "moved/" + name
		c.entries[name] = "second"
	}
	if rng.IntN(3) == 0 {
		if status, m, err = c.do(ctx, "DELETE", path, nil, ""); err != nil || status != http.StatusOK {
			return fmt.Errorf("remove %s: %d %v %w", name, status, m, err)
		}
		delete(c.entries, name)
	}
	return nil
}

// say sends a message, as a request or as a run.
func (c *httpClient) say(ctx context.Context, rng *rand.Rand, text string) error {
	body := map[string]any{"content": text, "agent": "crab"}
	content := ""
	if rng.IntN(2) == 0 {
		status, answer, err := c.do(ctx, "POST", "/v1/send", body, "")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("send %q: %d %v %w", text, status, answer, err)
		}
		content, _ = answer["content"].(string)
	} else {
		before, last := c.n, ""
		for content == "" { // a gateway that was killed has forgotten the run
			c.n = before
			status, run, err := c.do(ctx, "POST", "/v1/runs", body, "")
			if err != nil || status != http.StatusAccepted {
				return fmt.Errorf("run %q: %d %v %w; before: %s", text, status, run, err, last)
			}
			for run["state"] == "running" {
				if status, run, err = c.once(ctx, "GET", fmt.Sprint("/v1/runs/", run["run"]), nil, "", ""); err != nil || status != http.StatusOK {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if run["state"] == "succeeded" {
				content, _ = run["content"].(string)
			}
			if run["state"] != "running" {
				last = fmt.Sprint(run)
			}
			if ctx.Err() != nil {
				return fmt.Errorf("run %q: %v: %w", text, run, ctx.Err())
			}
		}
	}
	if content != model.Answer(text) {
		return fmt.Errorf("the answer to %q is %q", text, content)
	}
	c.turns = append(c.turns, text)
	return nil
}

// check reads all entries and sessions of the client.
func (c *httpClient) check(ctx context.Context, t *testing.T) {
	t.Helper()
	found := make(map[string]string)
	for after := "0"; after != ""; {
		_, page, err := c.do(ctx, "GET", "/v1/memories?kind=note&view=full&limit=200&after="+after, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page["items"].([]any) {
			e := item.(map[string]any)
			found[e["name"].(string)] = e["content"].(string)
		}
		after, _ = page["next"].(string)
	}
	for name, content := range c.entries {
		if found[name] != content {
			t.Errorf("%s is %q, want %q", name, found[name], content)
		}
	}
	if len(found) != len(c.entries) {
		t.Errorf("%s has %d entries, want %d", c.name, len(found), len(c.entries))
	}
	var answers []string
	for after := 0.0; len(answers) < len(c.hooks) && ctx.Err() == nil; {
		_, page, err := c.do(ctx, "GET", fmt.Sprintf("/webhook/poll/c?wait=10&after=%.0f", after), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page["messages"].([]any) {
			m := item.(map[string]any)
			answers, after = append(answers, m["content"].(string)), m["seq"].(float64)
		}
	}
	if !slices.Equal(answers, c.hooks) {
		t.Errorf("answers to the webhook of %s: %q, want %q", c.name, answers, c.hooks)
	}
	_, list, err := c.do(ctx, "GET", "/v1/sessions", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	sessions := list["items"].([]any)
	if len(sessions) != 1 {
		t.Fatalf("%s has %d sessions", c.name, len(sessions))
	}
	said := make(map[string]int)
	for after := "0"; after != ""; {
		_, page, err := c.do(ctx, "GET", fmt.Sprintf("/v1/sessions/%s/history?limit=200&after=%s", sessions[0].(map[string]any)["session"], after), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page["items"].([]any) {
			if record, ok := item.(map[string]any)["record"].(map[string]any); ok && record["role"] == "user" {
				said[record["content"].(string)]++
			}
		}
		after, _ = page["next"].(string)
	}
	for _, text := range c.turns {
		if said[text] != 1 {
			t.Errorf("the session of %s has %q %d times", c.name, text, said[text])
		}
	}
}

// startGateway starts a gateway and waits until it responds.
func startGateway(t *testing.T, exe, home, port string) *exec.Cmd {
	t.Helper()
	for began := time.Now(); time.Since(began) < gate.Hang; {
		cmd := exec.Command(exe, "gateway", "--home", home, "--port", port)
		stderr := new(bytes.Buffer)
		cmd.Stderr = stderr
		cmd.Env = append(os.Environ(), "CRABMEM_SOCKET=")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		t.Cleanup(func() { cmd.Process.Kill(); <-ended })
		for alive := true; alive && time.Since(began) < gate.Hang; {
			if p, err := http.Get("http://127.0.0.1:" + port + "/health"); err == nil {
				p.Body.Close()
				return cmd
			}
			select {
			case <-ended:
				alive = false
			case <-time.After(2 * time.Millisecond):
			}
		}
		if !strings.Contains(stderr.String(), "address already in use") {
			t.Fatalf("the gateway does not respond: %s", stderr)
		}
	}
	t.Fatal("the gateway does not respond")
	return nil
}

// TestKillGateway repeatedly kills the gateway or the daemon while four clients send
// requests, which they repeat with their keys. Each request has one effect.
func TestKillGateway(t *testing.T) {
	n := rounds(5, 200)
	rng := seed.Random(t)
	m, err := model.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	exe := command(t)
	home, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	config := "sessions.titles = \"off\"\n[provider.test]\nkind = \"openai-compatible\"\nbase_url = \"" + m.URL + "\"\napi_key = \"none\"\nmodels = [\"m\"]\n[system.crab]\nmodel = \"m\"\n"
	limits := "[limits]\nrate = 100000.0\nburst = 100000\n"
	clients := make([]*httpClient, writers)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	for i := range clients {
		name := fmt.Sprint("k", i)
		key, _, err := gateway.AddKey(vfs.OS{}, home, gateway.Key{Name: name}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		config += "[origins.\"api:" + name + "\"]\ntrust = \"trusted\"\n[origins.\"hook:" + name + "/\"]\ntrust = \"trusted\"\n"
		clients[i] = &httpClient{url: "http://127.0.0.1:" + port, key: key, name: name, entries: make(map[string]string)}
	}
	for file, text := range map[string]string{"config.toml": "limits.trusted_runs_per_minute = 0\n" + config, gateway.File: limits} {
		if err := os.WriteFile(filepath.Join(home, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, _ := startDaemon(t, exe, home)
	g := startGateway(t, exe, home, port)
	ctx, cancel := context.WithTimeout(t.Context(), gate.Hang)
	defer cancel()
	stop := make(chan struct{})
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i, c := range clients {
		sd := rng.Uint64()
		wg.Go(func() { errs[i] = c.write(ctx, rand.New(rand.NewPCG(sd, 0)), stop) })
	}
	for range n {
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
		if rng.IntN(2) == 0 {
			d.Process.Kill()
			d.Wait()
			d, _ = startDaemon(t, exe, home)
		} else {
			g.Process.Kill()
			g = startGateway(t, exe, home, port)
		}
	}
	close(stop)
	wg.Wait()
	entries, turns, repeated, answers := 0, 0, 0, 0
	for i, c := range clients {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		c.check(ctx, t)
		entries, turns, repeated = entries+len(c.entries), turns+len(c.turns), repeated+c.repeated
		answers += len(c.hooks)
	}
	t.Logf("kill -9 of gateway or daemon: %d rounds, %d requests repeated, %d entries, %d turns, and %d answers to the webhook, each request one effect", n, repeated, entries, turns, answers)
	if !t.Failed() && (entries == 0 || turns == 0 || repeated == 0) {
		t.Errorf("too little to test")
	}
}
