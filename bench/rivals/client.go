//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	callTimeout  = 5 * time.Minute // limit of one request, and of the start of a server
	maxResponse  = 64 << 20
	maxErrorText = 300
)

// program is a process with its descendants. stop kills them all.
type program struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
	next   int
}

// start starts the program of argv in its own process group.
func start(dir string, env, argv []string) (*program, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &program{cmd: cmd, stderr: &tail{}}
	cmd.Stderr = p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReaderSize(io.LimitReader(out, maxResponse), 1<<16)
	return p, cmd.Start()
}

// stop kills the process group with SIGKILL and reaps the process.
func (p *program) stop() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.cmd.Wait()
}

// line sends a JSON line and returns the first line that accept takes. After
// callTimeout it kills the program.
func (p *program) line(request any, accept func([]byte) bool) ([]byte, error) {
	b, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	timer := time.AfterFunc(callTimeout, func() { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return nil, fmt.Errorf("%w: %s", err, p.stderr)
	}
	for {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, p.stderr)
		}
		if accept(line) {
			return line, nil
		}
	}
}

// mcp starts an MCP server over standard input and output.
func mcp(dir string, env, argv []string) (*program, error) {
	p, err := start(dir, env, argv)
	if err != nil {
		return nil, err
	}
	_, err = p.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "rivals", "version": "1"}})
	if err == nil {
		_, err = p.in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *program) request(method string, params any) (json.RawMessage, error) {
	p.next++
	var got struct {
		ID     *int
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	_, err := p.line(map[string]any{"jsonrpc": "2.0", "id": p.next, "method": method, "params": params}, func(b []byte) bool {
		got.ID = nil
		return json.Unmarshal(b, &got) == nil && got.ID != nil && *got.ID == p.next && (got.Result != nil || got.Error != nil)
	})
	if err != nil {
		return nil, err
	}
	if got.Error != nil {
		return nil, errors.New(got.Error.Message)
	}
	return got.Result, nil
}

// tool calls a tool and returns its text.
func (p *program) tool(name string, arguments map[string]any) (string, error) {
	result, err := p.request("tools/call", map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		return "", err
	}
	var r struct {
		IsError bool
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range r.Content {
		text.WriteString(c.Text + "\n")
	}
	if r.IsError {
		return "", errors.New(short(text.String()))
	}
	return text.String(), nil
}

// fetch sends a request over HTTP, with a JSON body unless it is nil, and returns the
// body of the response.
func fetch(method, url string, body any) (string, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return "", err
		}
	}
	request, err := http.NewRequest(method, url, bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: callTimeout}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, short(string(got)))
	}
	return string(got), err
}

// run runs a command to its end and returns its output. An exit code other than 0 is
// an error with the last output.
func run(dir string, env []string, argv ...string) (string, error) {
	if os.Getenv("RIVALS_TRACE") != "" {
		fmt.Fprintln(os.Stderr, "$", strings.Join(argv, " "))
	}
	p, err := start(dir, env, argv)
	if err != nil {
		return "", err
	}
	p.in.Close()
	timer := time.AfterFunc(callTimeout, func() { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	out, _ := io.ReadAll(p.out)
	if err := p.cmd.Wait(); err != nil {
		return string(out), fmt.Errorf("%w: %s", err, short(p.stderr.String()+string(out)))
	}
	return string(out), nil
}

// tail is a writer that contains the last bytes.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if len(t.b) > 4096 {
		t.b = append([]byte(nil), t.b[len(t.b)-4096:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxErrorText {
		s = strings.ToValidUTF8(s[:maxErrorText/2], "") + " … " + strings.ToValidUTF8(s[len(s)-maxErrorText/2:], "")
	}
	return s
}
