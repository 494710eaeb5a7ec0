package external

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"crabmem/daemon/display"
	"crabmem/daemon/process"
	"crabmem/daemon/work"
	"crabmem/sessionlog/record"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The client of ACP handles one message at a time. The library github.com/coder/acp-go-sdk
// v0.13.5 would add 262 kB to the program, and it starts a goroutine for each request of
// the agent. The messages of MCP are JSON-RPC, too.

const (
	protocol     = 1           // version
	maxMessage   = 8 << 20     // bytes of a message
	maxMessages  = 1 << 20     // of a run
	maxNoise     = 100         // lines that are no messages
	maxID        = 1 << 10     // bytes of the ID of a session or an option
	startTimeout = time.Minute // to respond to a request before the task
	writeTimeout = 10 * time.Second
)

// client is the client of an agent, for one turn.
type client struct {
	*run
	pipe interface { // standard input, which the agent may not read
		io.Writer
		SetWriteDeadline(time.Time) error
	}
	messages chan jsonrpc.Message // closed at the end of the output
	readErr  error                // why that was; read after messages is closed
	closed   chan struct{}        // no message is read

	lastID    int64
	session   string
	turn      bool // the task is sent
	cancelled bool
}

// statuses are the statuses of the reasons to stop.
var statuses = map[string]work.Status{
	"end_turn":          done,
	"max_tokens":        {State: record.Failed, Reason: work.Exhausted},
	"max_turn_requests": {State: record.Failed, Reason: work.Exhausted},
	"refusal":           {State: record.Failed, Reason: work.Reported},
	"cancelled":         {State: record.Failed, Reason: work.Cancelled},
}

// acp is the protocol acp.
func (r *run) acp(ctx context.Context, p *process.Process, pipes *sync.WaitGroup, _ context.CancelCauseFunc) (work.Status, error) {
	c := &client{run: r, pipe: p.In, messages: make(chan jsonrpc.Message), closed: make(chan struct{})}
	pipes.Go(func() { c.read(p.Out) })
	return c.serve(ctx)
}

// serve returns the status after a turn. The error is [io.EOF] if the agent has closed a
// pipe. A turn that ends despite a cancel is done.
func (c *client) serve(ctx context.Context) (work.Status, error) {
	defer close(c.closed)
	stop, err := c.prompt(ctx)
	status, known := statuses[stop]
	if ctx.Err() != nil && (err != nil || status != done) {
		err = stopped(ctx)
	} else if err == nil && !known {
		err = fmt.Errorf("it stopped for an unknown reason: %q", stop)
	}
	return status, err
}

// reply contains the fields of all results.
type reply struct {
	ProtocolVersion       int
	AgentCapabilities     struct{ LoadSession bool }
	SessionID, StopReason string
}

// object is a JSON object that is sent.
type object = map[string]any

// prompt starts or loads a session, sends the task, and returns why the agent stopped.
func (c *client) prompt(ctx context.Context) (stop string, err error) {
	agent, err := c.call(ctx, "initialize", object{
		"protocolVersion": protocol, "clientCapabilities": object{}, "clientInfo": object{"name": "crabmem", "version": c.in.Version},
	})
	loads := agent.AgentCapabilities.LoadSession
	switch {
	case err != nil:
		return "", err
	case agent.ProtocolVersion != protocol:
		return "", fmt.Errorf("it uses version %d of the protocol, not %d", agent.ProtocolVersion, protocol)
	case c.in.Session != "" && !loads:
		return "", errors.New("it cannot continue a session")
	}
	method, params := "session/new", object{"cwd": c.in.Dir, "mcpServers": []any{}}
	if c.session = c.in.Session; c.session != "" {
		method, params["sessionId"] = "session/load", c.session
	}
	created, err := c.call(ctx, method, params)
	if err != nil {
		return "", err
	}
	if c.session == "" {
		c.session = created.SessionID
	}
	if !isID(c.session) {
		return "", fmt.Errorf("the ID of its session is invalid: %q", display.Short(c.session, 100))
	}
	if loads && c.on.Session != nil {
		c.on.Session(c.session)
	}
	c.turn = true
	end, err := c.call(ctx, "session/prompt", object{"sessionId": c.session, "prompt": []object{{"type": "text", "text": c.in.Task}}})
	return end.StopReason, err
}

// isID reports whether an ID can be stored and sent back.
func isID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, unicode.IsControl)
}

// call sends a request and handles messages until its response. If ctx ends during the
// turn, call cancels the turn and waits for the response for cancelGrace.
func (c *client) call(ctx context.Context, method string, params object) (r reply, err error) {
	c.lastID++
	if err := c.send(object{"id": c.lastID, "method": method, "params": params}); err != nil {
		return r, err
	}
	var late <-chan time.Time
	if !c.turn {
		late = time.After(startTimeout)
	}
	for ended := ctx.Done(); ; {
		select {
		case m, ok := <-c.messages:
			switch m := m.(type) {
			case *jsonrpc.Request:
				err = c.handle(m)
			case *jsonrpc.Response:
				if m.ID.Raw() == c.lastID {
					return decode(method, m)
				}
			}
			if !ok {
				err = c.readErr
			}
		case <-ended:
			if !c.turn {
				return r, context.Cause(ctx)
			}
			c.cancelled, ended, late = true, nil, time.After(cancelGrace)
			err = c.send(object{"method": "session/cancel", "params": object{"sessionId": c.session}})
		case <-late:
			err = fmt.Errorf("it did not respond to %s within %v", method, startTimeout)
		}
		if err != nil {
			return r, err
		}
	}
}

// decode decodes a response.
func decode(method string, m *jsonrpc.Response) (r reply, err error) {
	if e, ok := errors.AsType[*jsonrpc.Error](m.Error); ok {
		return r, fmt.Errorf("it refused %s: %s %s", method, display.Short(e.Message, maxError/4), display.Short(string(e.Data), maxError/4))
	} else if err = json.Unmarshal(m.Result, &r); err != nil {
		err = fmt.Errorf("it sent an invalid response to %s: %w", method, err)
	}
	return r, err
}

// send writes a message. The error is [io.EOF] if the agent has closed the pipe.
func (c *client) send(message object) error {
	message["jsonrpc"] = "2.0"
	b, err := display.JSON(message)
	if err != nil {
		return err
	}
	if err = c.pipe.SetWriteDeadline(time.Now().Add(writeTimeout)); err == nil {
		_, err = c.pipe.Write(append(b, '\n'))
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("it does not read its standard input")
	case err != nil:
		return io.EOF
	}
	return nil
}

// handle handles a request or a notification of the agent.
func (c *client) handle(m *jsonrpc.Request) error {
	switch {
	case !m.IsCall() && m.Method == "session/update":
		c.update(m.Params)
		fallthrough
	case !m.IsCall():
		return nil
	case m.Method == "session/request_permission":
		return c.send(object{"id": m.ID.Raw(), "result": object{"outcome": c.permit(m.Params)}})
	}
	return c.send(object{"id": m.ID.Raw(), "error": object{"code": jsonrpc.CodeMethodNotFound, "message": "this client has no files and no terminal: use your own tools"}})
}

// update reads what the agent did or wrote. It ignores updates before the turn, which
// repeat an earlier one, and updates that it cannot decode.
func (c *client) update(params []byte) {
	var p struct {
		SessionID string
		Update    struct {
			SessionUpdate, Title string
			Content              json.RawMessage
		}
	}
	if json.Unmarshal(params, &p) != nil || p.SessionID != c.session || !c.turn {
		return
	}
	switch p.Update.SessionUpdate {
	case "agent_message_chunk":
		var chunk struct{ Text string }
		_ = json.Unmarshal(p.Update.Content, &chunk) // an invalid one has no text
		io.WriteString(c, chunk.Text)                //nolint:errcheck // a capture
	case "tool_call", "tool_call_update":
		c.status(p.Update.Title)
	}
}

// permit returns the answer to a question for permission: the option that the
// configuration selects, or that the question is cancelled.
func (c *client) permit(params []byte) object {
	var p struct {
		Options []struct{ OptionID, Kind string }
	}
	_ = json.Unmarshal(params, &p) // an invalid question has no options
	prefix := "reject"
	if c.Permissions == "allow" {
		prefix = "allow"
	}
	for _, kind := range []string{prefix + "_once", prefix + "_always"} {
		for _, o := range p.Options {
			if o.Kind == kind && isID(o.OptionID) && !c.cancelled {
				return object{"outcome": "selected", "optionId": o.OptionID}
			}
		}
	}
	return object{"outcome": "cancelled"}
}

// read passes messages on until the output ends. It ignores a few lines that are no
// messages, which many programs print.
func (c *client) read(out io.Reader) {
	defer close(c.messages)
	c.readErr = io.EOF // if the client ends read
	r := bufio.NewReaderSize(out, 64<<10)
	var pace process.Pace
	for n, noise := 0, 0; ; n++ {
		line, err := process.ReadLine(r, maxMessage)
		c.progress()
		var size process.Shape
		if tooMany := size.Add(line); tooMany != nil {
			line, err = nil, tooMany
		} else if n == maxMessages || noise == maxNoise {
			line, err = nil, fmt.Errorf("it sent %d lines, or %d that are no messages", maxMessages, maxNoise)
		}
		if !pace.Wait(1, len(line), c.closed) {
			return
		}
		if m, derr := jsonrpc.DecodeMessage(line); derr == nil {
			select {
			case c.messages <- m:
			case <-c.closed:
				return
			}
		} else if len(bytes.TrimSpace(line)) > 0 {
			noise++
		}
		if errors.Is(err, fs.ErrClosed) {
			return
		} else if err != nil {
			c.readErr = err
			return
		}
	}
}
