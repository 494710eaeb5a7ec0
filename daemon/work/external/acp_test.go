package external

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/config"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// serveAgent runs an agent that is a function, in a bubble of synctest. The agent's pipes
// are closed when the turn has ended. If cancel is set, the task is cancelled then.
func serveAgent(t *testing.T, w *config.ExternalWorker, in Input, cancel time.Duration, agent func(in io.Reader, out io.Writer)) (o Outcome, r reports) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		theirIn, pipe := net.Pipe()
		out, theirOut := net.Pipe()
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		if cancel > 0 {
			defer time.AfterFunc(cancel, func() { stop(nil) }).Stop()
		}
		c := &client{run: newRun(w, in, r.callbacks()), pipe: pipe, messages: make(chan jsonrpc.Message), closed: make(chan struct{})}
		if w.IdleTimeout > 0 {
			c.idle = time.AfterFunc(w.IdleTimeout, func() { stop(errIdle) })
			defer c.idle.Stop()
		}
		var others sync.WaitGroup
		others.Go(func() {
			agent(theirIn, theirOut)
			theirIn.Close()
			theirOut.Close()
		})
		others.Go(func() { c.read(out) })
		status, err := c.serve(ctx)
		if o = (Outcome{status, c.text.Text(16 << 10)}); err != nil {
			o = c.failed(err)
		}
		pipe.Close()
		out.Close()
		others.Wait()
	})
	check(t, o, &r)
	return o, r
}

// scriptedAgent is serveAgent with an agent of the tests.
func scriptedAgent(t *testing.T, how string, in Input, cancel time.Duration) (Outcome, reports) {
	t.Helper()
	w := &config.ExternalWorker{Name: "w", Protocol: config.ACP, Permissions: "deny"}
	if name, ok := strings.CutPrefix(how, "allow "); ok {
		how, w.Permissions = name, "allow"
	}
	return serveAgent(t, w, in, cancel, func(in io.Reader, out io.Writer) { agent(how, in, out) })
}

// TestAgents runs a turn with each agent.
func TestAgents(t *testing.T) {
	resumed := task
	resumed.Session = "s1"
	for _, c := range []struct {
		how    string
		in     Input
		cancel time.Duration
		status string
		text   string // all of it after done, or one of its words
	}{
		{"good", task, 0, "done (outcome)", "12 passed"},
		{"noise", task, 0, "done (outcome)", "12 passed"},
		{"load", task, 0, "done (outcome)", "12 passed"},
		{"load", resumed, 0, "done (outcome)", "12 passed"},
		{"good", resumed, 0, "failed (error)", "w: it cannot continue a session"},
		{"refusal", task, 0, "failed (reported)", "so far"},
		{"max_tokens", task, 0, "failed (exhausted)", "so far"},
		{"max_turn_requests", task, 0, "failed (exhausted)", "so far"},
		{"cancelled", task, 0, "failed (cancelled)", "so far"},
		{"tired", task, 0, "failed (error)", `w: it stopped for an unknown reason: "tired"`},
		{"version", task, 0, "failed (error)", "w: it uses version 2 of the protocol, not 1"},
		{"null", task, 0, "failed (error)", "w: it uses version 0 of the protocol, not 1"},
		{"list", task, 0, "failed (error)", "w: it sent an invalid response to initialize"},
		{"login", task, 0, "failed (error)", `w: it refused session/new: Authentication required {"details":"run login"}`},
		{"long ID", task, 0, "failed (error)", "w: the ID of its session is invalid"},
		{"no ID", task, 0, "failed (error)", `w: the ID of its session is invalid: ""`},
		{"garbage", task, 0, "failed (error)", "w: it sent 1048576 lines, or 100 that are no messages"},
		{"oversized", task, 0, "failed (error)", "w: message exceeds 8 MiB"},
		{"values", task, 0, "failed (error)", "w: message has more than 262144 values"},
		{"silent", task, 0, "failed (error)", "w: it did not respond to initialize within 1m0s"},
		{"silent", task, time.Second, "failed (cancelled)", "w: cancelled"},
		{"deaf", task, 0, "failed (error)", "w: it does not read its standard input"},
		{"permission", task, 0, "done (outcome)", `{'outcome':{'optionId':'4','outcome':'selected'}}{'outcome':{'optionId':'3','outcome':'selected'}}` + strings.Repeat(`{'outcome':{'outcome':'cancelled'}}`, 3)},
		{"allow permission", task, 0, "done (outcome)", `{'outcome':{'optionId':'2','outcome':'selected'}}{'outcome':{'optionId':'1','outcome':'selected'}}` + strings.Repeat(`{'outcome':{'outcome':'cancelled'}}`, 3)},
		{"files", task, 0, "done (outcome)", "fs/read_text_file-32601 fs/write_text_file-32601 terminal/create-32601 session/update-32601 -32601 "},
		{"cancels", task, time.Hour, "failed (cancelled)", "so far{'outcome':{'outcome':'cancelled'}}"},
		{"stays", task, time.Hour, "failed (cancelled)", "Its text until then:\nso far"},
		{"finishes", task, time.Hour, "done (outcome)", "done"},
		{"long", task, 0, "done (outcome)", " bytes left out] ...\n"},
	} {
		t.Run(c.how+" "+c.in.Session, func(t *testing.T) {
			o, r := scriptedAgent(t, c.how, c.in, c.cancel)
			want(t, o, c.status, c.text)
			if c.status == "done (outcome)" && c.how != "long" && o.Text != c.text {
				t.Errorf("text %q", o.Text)
			}
			if strings.Contains(o.Text, "BROKEN") {
				t.Error(o.Text)
			}
			if sessions := strings.Join(r.sessions, " "); sessions != map[bool]string{true: "s1"}[c.how == "load"] {
				t.Errorf("sessions %q", sessions)
			}
			if c.how == "good" && c.in.Session == "" && strings.Join(r.statuses, "|") != "run ␛[31mgo test" {
				t.Errorf("statuses %q", r.statuses)
			}
		})
	}
}

// TestCancelGrace checks how long a cancelled agent may take.
func TestCancelGrace(t *testing.T) {
	for how, want := range map[string]time.Duration{"stays": time.Hour + cancelGrace, "cancels": time.Hour, "silent": time.Minute} {
		w := &config.ExternalWorker{Name: "w", Protocol: config.ACP}
		var took time.Duration
		serveAgent(t, w, task, time.Hour, func(in io.Reader, out io.Writer) {
			began := time.Now()
			agent(how, in, out)
			took = time.Since(began)
		})
		if took != want {
			t.Errorf("%s: the turn took %v, want %v", how, took, want)
		}
	}
}

// TestIdle checks that the idle time begins again with each message.
func TestIdle(t *testing.T) {
	w := &config.ExternalWorker{Name: "w", Protocol: config.ACP, IdleTimeout: time.Hour}
	var took time.Duration
	o, _ := serveAgent(t, w, task, 0, func(in io.Reader, out io.Writer) {
		began := time.Now()
		agent("slow", in, out)
		took = time.Since(began)
	})
	want(t, o, "failed (stalled)")
	if want := 5*50*time.Minute + time.Hour + cancelGrace; took != want {
		t.Errorf("the turn took %v, want %v", took, want)
	}
}

// FuzzAgent checks that for any output of an agent the turn ends, and that its outcome and
// what it reports are bounded. $id in a line is the number of the last request; each form
// feed waits for another request.
func FuzzAgent(f *testing.F) {
	const result = `{"jsonrpc":"2.0","id":$id,"result":`
	start := result + `{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}` + "\n\f" + result + `{"sessionId":"s1"}}` + "\n\f"
	update := func(fields string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{` + fields + `}}}` + "\n"
	}
	end := result + `{"stopReason":"end_turn"}}` + "\n"
	for _, s := range []string{
		"", "{}", "\xff\xfe", "null\n[]\n[1,{}]\n[" + strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 20_000), result + "null}", result + `{"protocolVersion":1.5}}`,
		`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"a\u001b[2J\ud800","data":[1]}}`, `{"jsonrpc":"2.0","id":1e999,"result":{}}`,
		result + `{"protocolVersion":1}}` + "\n\f" + result + `{"sessionId":"a\nb"}}`, start + end, start + result + `{"stopReason":7}}`,
		start + update(`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud800\u0000`+strings.Repeat("é", 20_000)+`"}`) + end,
		start + update(`"sessionUpdate":"tool_call","title":"a\u202e\u001b[2J\n`+strings.Repeat("x", 1000)+`"`) + end,
		start + `{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"options":[{"optionId":"x","kind":"reject_once"},null,{}]}}` + "\n\f" + end,
		start + `{"jsonrpc":"2.0","id":"` + strings.Repeat("q", 10_000) + `","method":"fs/read_text_file","params":[]}` + "\n\f" + end,
		start + `{"jsonrpc":"2.0","id":0,"method":"","params":null}` + "\n" + end + end, strings.Repeat("x\n", maxNoise+2),
	} {
		f.Add(s, "", false, false)
		f.Add(s, "s1", true, true)
	}
	f.Fuzz(func(t *testing.T, script, session string, cancel, allow bool) {
		if len(script) > 1<<20 {
			return
		}
		w := &config.ExternalWorker{Name: "w", Protocol: config.ACP, Permissions: map[bool]string{true: "allow", false: "deny"}[allow]}
		in, after := task, time.Duration(0)
		if in.Session = session; cancel {
			after = time.Second
		}
		began := time.Now()
		o, _ := serveAgent(t, w, in, after, func(in io.Reader, out io.Writer) {
			requests := make(chan int, 1000)
			go func() { // ends when its input is closed
				defer close(requests)
				buf := make([]byte, 64<<10)
				for n := 1; ; {
					k, err := in.Read(buf)
					if err != nil {
						return
					}
					if strings.Contains(string(buf[:k]), `"method"`) {
						select {
						case requests <- n:
						default:
						}
						n++
					}
				}
			}()
			last := 0
			for part := range strings.SplitSeq(script, "\f") {
				select {
				case n, ok := <-requests:
					if ok {
						last = n
					}
				case <-time.After(time.Second):
				}
				if _, err := io.WriteString(out, strings.ReplaceAll(part, "$id", string(rune('0'+last%10)))); err != nil {
					break
				}
			}
			time.Sleep(time.Second)
			if c, ok := in.(io.Closer); ok {
				c.Close()
			}
			for range requests {
			}
		})
		if strings.Contains(o.Text, task.Task) {
			t.Errorf("the text repeats the task: %q", o.Text)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the turn took %v", took)
		}
	})
}
