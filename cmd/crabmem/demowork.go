package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/model"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

const demoConfig = `[system.crab]
role = "channel"
model = "offline"
`

const demoQuestion = "Is release 2.4 ready?"

// demoTasks are tasks with their commands, and demoThoughts are questions with their
// conclusions.
var (
	demoTasks = [][2]string{
		{"count the tests", "wc -l tests.txt"},
		{"read the changelog", "head -n 2 changelog.md"},
		{"measure the image", "wc -c image.bin"},
	}
	demoThoughts = [][2]string{
		{"what did we agree on for 2.4?", "2.4 ships when all tests pass and the changelog is complete."},
		{"what went wrong in release 2.3?", "2.3 shipped an image that was too large."},
	}
)

func demoWorkCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "work",
		Short: "run a channel with two branches and three workers",
		Long: `Run an agent with role = "channel" on a question. It gives two questions to
branches and three tasks to workers, which run commands, and answers when their
results arrive. A script plays the model, so the demo needs no API key and no
network. It writes only to a new directory, whose path it prints.`,
		Example: `  crabmem demo work`,
	}, func(ctx context.Context, _ []string) (workDemo, error) { return c.demoWork(ctx) }, func(w workDemo) {
		c.Say("\nanswer: %s\n\nthe session: crabmem --home %s sessions show %s", w.Answer, w.Home, w.Session)
	})
}

// workDemo is demo work --json.
type workDemo struct {
	Home    string      `json:"home"`
	Session string      `json:"session"`
	Answer  string      `json:"answer"`
	Work    []role.View `json:"work"`
}

func (c *app) demoWork(ctx context.Context) (w workDemo, err error) {
	dir := filepath.Join(os.TempDir(), "crabmem-demo-"+rand.Text()[:8])
	w.Home = filepath.Join(dir, "home")
	project := filepath.Join(dir, "project")
	for _, d := range []string{w.Home, project} {
		if err := vfs.MkdirAll(c.fs, d, 0o700); err != nil {
			return w, err
		}
	}
	for name, text := range map[string]string{
		filepath.Join(w.Home, "config.toml"): demoConfig, filepath.Join(project, "tests.txt"): strings.Repeat("ok\n", 12),
		filepath.Join(project, "changelog.md"): "# 2.4\n- faster recall\n", filepath.Join(project, "image.bin"): strings.Repeat("x", 4096),
	} {
		if err := vfs.WriteFile(c.fs, name, 0o600, []byte(text)); err != nil {
			return w, err
		}
	}
	d, err := daemon.Open(daemon.Options{Home: w.Home, FS: c.fs, Getenv: c.Getenv, Now: c.now, Offline: demoModel{}})
	if err != nil {
		return w, err
	}
	cl, end, err := c.serveOn(d, w.Home, func() error { return nil })
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if !c.JSON {
		fmt.Fprintf(c.Out, "the configuration, %s:\n%s\n> %s\n", filepath.Join(w.Home, "config.toml"), demoConfig, demoQuestion)
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	shown := make(chan error, 1)
	events := op.FollowEvents.All(following, cl, op.EventFilter{})
	go func() { // ends with a wake's answer, or with following
		var err error
		w.Answer, err = c.showWork(events)
		shown <- err
	}()
	a, err := op.SendMessage.Do(ctx, cl, op.Message{Content: demoQuestion, Dir: project})
	if err != nil {
		return w, err
	}
	first := strings.HasPrefix(a.Content, demoReady) // all results came in time for the first answer
	if first {
		stop()
	}
	if err := <-shown; err != nil && !first {
		return w, err
	}
	if w.Session = a.Session; first {
		w.Answer = a.Content
	}
	w.Work, err = op.ListWork.Do(ctx, cl, op.WorkQuery{Session: w.Session})
	return w, err
}

// showWork prints events until the channel has its answer, and returns the answer.
func (c *app) showWork(events iter.Seq2[*agent.Event, error]) (answer string, err error) {
	var text strings.Builder
	for e, err := range events {
		if err != nil {
			return "", err
		}
		switch e.Kind {
		case agent.TextDelta:
			if e.Agent == "crab" {
				text.WriteString(e.Content)
			}
		case agent.Wake, agent.Done:
			if strings.HasPrefix(text.String(), demoReady) {
				return text.String(), nil
			}
			text.Reset()
		case agent.WorkStarted, agent.WorkStatus, agent.WorkEnded, agent.Reply:
			if c.JSON {
				continue
			}
			lines := chat.EventLines(e)
			if e.Kind == agent.Reply {
				lines = []string{display.Printable(e.Content)}
			}
			for _, line := range lines {
				c.Out.WriteString(cli.Fit(line, c.Width()) + "\n")
			}
			if err := c.Out.Flush(); err != nil {
				return "", err
			}
		}
	}
	return "", context.Canceled
}

// demoModel plays the demo's model.
type demoModel struct{}

func (demoModel) Send(context.Context, model.Request) (*model.Response, error) {
	return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: "release 2.4"}, Finish: "stop"}, nil
}

func (demoModel) Stream(_ context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	text, calls := demoStep(&q)
	c := model.Chunk{Content: text, Finish: "stop"}
	for n, call := range calls {
		args, _ := json.Marshal(map[string]string{call.key: call.value}) // never fails for strings
		c.Calls = append(c.Calls, model.CallDelta{Index: n, ID: fmt.Sprint(len(q.Messages), "-", n), Name: call.tool, Arguments: string(args)})
		c.Finish = "tool_calls"
	}
	return func(yield func(model.Chunk, error) bool) { yield(c, nil) }
}

// demoReady begins the answer.
const demoReady = "Release 2.4"

// demoCall is a tool call with one argument.
type demoCall struct{ tool, key, value string }

// demoStep returns a response's text and calls.
func demoStep(q *model.Request) (text string, calls []demoCall) {
	offers := func(name string) bool {
		return slices.ContainsFunc(q.Tools, func(t model.Tool) bool { return t.Name == name })
	}
	last := &q.Messages[len(q.Messages)-1]
	command, conclusion := demoWork(q, demoTasks), demoWork(q, demoThoughts)
	switch {
	case offers(role.Reply) && last.Content == demoQuestion:
		calls = append(calls, demoCall{role.Reply, "content", "I ask two branches and three workers."})
		for _, t := range demoThoughts {
			calls = append(calls, demoCall{role.Branch, "question", t[0]})
		}
		for _, t := range demoTasks {
			calls = append(calls, demoCall{role.SpawnWorker, "task", t[0]})
		}
		return "", calls
	case conclusion != "":
		return conclusion, nil
	case offers(role.Outcome) && last.Role == record.RoleTool:
		var ran struct{ Stdout string }
		_ = json.Unmarshal([]byte(last.Content), &ran) // else it is an error
		return "", []demoCall{{role.Outcome, "text", cmp.Or(display.OneLine(ran.Stdout), last.Content)}}
	case offers(role.Outcome):
		return "", []demoCall{{role.SetStatus, "status", "running " + command}, {tool.Bash, "command", command}}
	case command != "":
		return "The result is reported.", nil
	}
	return demoReport(q), nil
}

// demoWork finds the row whose first text is a user message, and returns its second text.
func demoWork(q *model.Request, rows [][2]string) string {
	for i := range q.Messages {
		for _, row := range rows {
			if m := &q.Messages[i]; m.Role == record.RoleUser && m.Content == row[0] {
				return row[1]
			}
		}
	}
	return ""
}

// demoReport returns the answer, or how many results are missing.
func demoReport(q *model.Request) string {
	var results []string // of workers
	branches, all := 0, len(demoTasks)+len(demoThoughts)
	for i := range q.Messages {
		worker := false // the line before is a worker's heading
		for line := range strings.Lines(q.Messages[i].Content) {
			if worker {
				results = append(results, strings.TrimSpace(line))
			}
			if worker = strings.HasPrefix(line, "## w"); strings.HasPrefix(line, "## b") {
				branches++
			}
		}
	}
	if n := len(results) + branches; n < all {
		return fmt.Sprintf("%d of %d results are here.", n, all)
	}
	slices.Sort(results)
	return demoReady + " is ready: " + strings.Join(results, "; ") + "."
}
