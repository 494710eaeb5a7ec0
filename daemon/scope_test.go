package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
)

// What an agent of these tests may be allowed.
var (
	cast     = []string{"crab", "alef", "bet", "gimel"}
	talents  = []string{"feeds", "notes", "sums"}
	servers  = []string{"search", "mail"}
	allTools = []string{"bash", "read", "edit", "ask_user", "delegate", "skill", "mcp", "recall", "remember", "forget", "session_search", "weather"}
)

// granted is what the configuration says of an agent.
type granted struct{ tools, skills, mcps, members []string }

// mayAlone is RFC 0082 with D18 and D19, written down anew and without lists:
// may this agent, asked by its user, do that?
func (g granted) mayAlone(who, kind, name string) bool {
	scoped := len(g.tools)+len(g.skills)+len(g.mcps)+len(g.members) > 0
	switch kind {
	case "skill":
		return len(g.skills) == 0 || slices.Contains(g.skills, name)
	case "mcp":
		return len(g.mcps) == 0 || slices.Contains(g.mcps, name)
	case "member":
		if len(g.members) > 0 {
			return slices.Contains(g.members, name)
		}
		return who == "crab" && !scoped
	}
	if name == "delegate" && len(g.members) == 0 && !(who == "crab" && !scoped) {
		return false
	}
	if len(g.tools) > 0 && !slices.Contains(g.tools, name) {
		return false
	}
	if len(g.skills)+len(g.mcps)+len(g.members) == 0 {
		return true // nothing but its tools bounds it
	}
	switch name {
	case "bash", "ask_user", "recall", "remember", "forget", "session_search":
		return true
	case "skill":
		return len(g.skills) > 0
	case "mcp":
		return len(g.mcps) > 0
	case "delegate":
		return len(g.members) > 0
	case "read", "edit":
		return slices.Contains(g.tools, name)
	}
	return false
}

// allowedBySkill is what each skill's allowed-tools leave.
var allowedBySkill = map[string][]string{"feeds": {"skill", "weather", "delegate"}, "notes": nil, "sums": {"recall", "mcp", "skill", "delegate", "bash"}}

// A world is a daemon whose model is random, and a record of who did what.
type world struct {
	t      *testing.T
	d      *Daemon
	grants map[string]granted

	mu      sync.Mutex
	rng     *rand.Rand
	left    int // actions of this sequence
	did     int // what was done, and allowed
	escapes []string
}

// A path says who asked whom, and which skills each has loaded: crab>bet+feeds.
// The model writes it into everything that it says.
func (w *world) may(at, kind, name string) bool {
	for _, step := range strings.Split(at, ">") {
		parts := strings.Split(step, "+")
		if !w.grants[parts[0]].mayAlone(parts[0], kind, name) {
			return false
		}
		for _, sk := range parts[1:] {
			if allowed := allowedBySkill[sk]; kind == "tool" && allowed != nil && !slices.Contains(allowed, name) {
				return false
			}
		}
	}
	return true
}

func (w *world) record(at, kind, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did++
	if !w.may(at, kind, name) {
		w.escapes = append(w.escapes, fmt.Sprintf("%s: %s %s", at, kind, name))
	}
}

// Send and Stream make world a model.
func (w *world) Send(ctx context.Context, q model.Request) (*model.Response, error) {
	return &model.Response{Message: sessionlog.Message{Role: "assistant", Content: "summary " + w.where(q.Messages)}, Finish: "stop"}, nil
}

// where is the path of the run: the newest that stands in the conversation, with
// the skills that were loaded since.
func (w *world) where(ms []sessionlog.Message) string {
	at := ""
	for _, m := range ms {
		if m.Role == sessionlog.RoleSystem {
			continue
		}
		for _, word := range strings.Fields(m.Content) {
			if p, ok := strings.CutPrefix(word, "at="); ok && m.Role == sessionlog.RoleUser {
				at = p
			} else if sk, ok := strings.CutPrefix(word, "loaded="); ok {
				at += "+" + sk
			}
		}
	}
	return "at=" + at
}

func (w *world) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	at := strings.TrimPrefix(w.where(q.Messages), "at=")
	w.mu.Lock()
	c := model.Chunk{Usage: &model.Usage{Prompt: 10, Completion: 1}}
	for i := range w.rng.IntN(4) {
		if w.left--; w.left < 0 {
			break
		}
		name := allTools[w.rng.IntN(len(allTools))]
		args := map[string]any{"at": at}
		switch name {
		case "delegate":
			to := cast[w.rng.IntN(len(cast))]
			message := "go at=" + at + ">" + to
			if w.rng.IntN(3) == 0 {
				message = "/" + talents[w.rng.IntN(len(talents))] + " " + message
			}
			args["tasks"] = []task{{to, message}}
		case "skill":
			args["name"] = talents[w.rng.IntN(len(talents))]
		case "mcp":
			args["server"] = servers[w.rng.IntN(len(servers))]
		case "recall", "session_search":
			args["query"] = "x"
		case "remember", "forget":
			args["name"], args["content"] = "x", "y"
		}
		b, err := json.Marshal(args)
		if err != nil {
			panic(err)
		}
		c.Calls = append(c.Calls, model.CallDelta{Index: i, ID: fmt.Sprint("c", i), Name: name, Arguments: string(b)})
	}
	if w.rng.IntN(4) == 0 {
		c.Usage.Prompt = 1 << 20 // compaction
	}
	w.mu.Unlock()
	// A run that begins was allowed to by everybody on the way.
	steps := strings.Split(at, ">")
	for i := 1; i < len(steps); i++ {
		to, _, _ := strings.Cut(steps[i], "+")
		w.record(strings.Join(steps[:i], ">"), "member", to)
	}
	for _, t := range q.Tools {
		w.record(at, "tool", t.Name) // it was told of it
	}
	return func(yield func(model.Chunk, error) bool) {
		if len(c.Calls) == 0 {
			c.Content = "done"
		}
		c.Finish = "stop"
		yield(c, nil)
	}
}

// fixtures stand in for the tools that go outside, and note who calls them.
func (w *world) fixtures(set *tool.Set) {
	type args struct {
		At     string `json:"at"`
		Name   string `json:"name"`
		Server string `json:"server"`
		Query  string `json:"query"`
	}
	for _, name := range allTools {
		real, _ := set.Get(name)
		set.Add(tool.New(name, "", func(ctx context.Context, c tool.Call, a args) (string, error) {
			w.record(a.At, "tool", name)
			switch name {
			case "bash", "read", "edit", "weather":
				return "ok", nil
			case "mcp":
				if err := c.Scope.Server(a.Server); err != nil {
					return "", err
				}
				w.record(a.At, "mcp", a.Server)
				return "ok", nil
			}
			out, err := real.Run(ctx, c)
			if name == "skill" && err == nil && strings.Contains(out, "Skill directory") {
				w.record(a.At, "skill", a.Name)
				out = "loaded=" + a.Name
			}
			return out, err
		}))
	}
}

// partOf returns a random part of a list, often none of it.
func partOf(r *rand.Rand, list []string) []string {
	if r.IntN(2) == 0 {
		return nil
	}
	var part []string
	for _, s := range list {
		if r.IntN(2) == 0 {
			part = append(part, s)
		}
	}
	return part
}

func quotedList(list []string) string {
	b, _ := json.Marshal(append([]string{}, list...))
	return string(b)
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), grants: make(map[string]granted)}
	fs := vfs.NewMem()
	write := func(name, text string) {
		if err := vfs.MkdirAll(fs, path.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := vfs.Replace(fs, name, 0o600, func(f io.Writer) error { _, err := io.WriteString(f, text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	const home = "/home/crab"
	var config strings.Builder
	for _, name := range cast {
		g := granted{partOf(w.rng, allTools), partOf(w.rng, talents), partOf(w.rng, servers), partOf(w.rng, cast)}
		if name == "crab" && w.rng.IntN(2) == 0 {
			g = granted{}
		}
		g.members = slices.DeleteFunc(g.members, func(m string) bool { return m == name })
		w.grants[name] = g
		table := "[agents." + name + "]\nprompt = \"x\"\n"
		if name == "crab" {
			table = "[system.crab]\n"
		}
		fmt.Fprintf(&config, "%smax_iterations = 4\ncompact_threshold = 1000\ntools = %s\nskills = %s\nmcps = %s\nmembers = %s\n",
			table, quotedList(g.tools), quotedList(g.skills), quotedList(g.mcps), quotedList(g.members))
	}
	fmt.Fprintf(&config, "[mcps.search]\nurl = \"http://127.0.0.1:1/mcp\"\n[mcps.mail]\nurl = \"http://127.0.0.1:2/mcp\"\n")
	write(home+"/config.toml", config.String())
	for _, sk := range talents {
		allowed := ""
		if a := allowedBySkill[sk]; a != nil {
			allowed = "allowed-tools: " + strings.Join(a, " ") + "\n"
		}
		write(home+"/skills/"+sk+"/SKILL.md", "---\nname: "+sk+"\ndescription: does "+sk+"\n"+allowed+"---\nloaded="+sk+"\n")
	}
	d, err := Open(Options{Home: home, FS: fs, Getenv: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler),
		Hooks: agent.Hooks{RegisterTools: w.fixtures}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	w.d = d
	models := d.setup().models
	if err := models.AddBackend("random", 1<<21, w); err != nil {
		t.Fatal(err)
	}
	if err := models.Switch("random"); err != nil {
		t.Fatal(err)
	}
	return w
}

// sequence has one agent work on one message.
func (w *world) sequence() {
	w.t.Helper()
	who := cast[w.rng.IntN(len(cast))]
	text := "go at=" + who
	if w.rng.IntN(3) == 0 {
		text = "/" + talents[w.rng.IntN(len(talents))] + " " + text
	}
	w.left = 12
	r := &request{ctx: w.t.Context(), send: func(*pb.ServerMessage) error { return nil }}
	err := w.d.send(r, &pb.SendMsg{Agent: who, Content: text, NewChat: true})
	if err != nil && !strings.Contains(err.Error(), "no more steps") {
		w.t.Fatal(err)
	}
	for _, l := range w.d.live.list() {
		w.d.drop(l)
	}
}

// TestScopesNeverWiden has random agents do random things: calls, delegations,
// slash commands, skills that narrow, compactions. Nothing that happens may be
// more than everybody on the way to it may do. CRABMEM_SCOPE is how many
// sequences there are.
func TestScopesNeverWiden(t *testing.T) {
	sequences, worlds := 2000, 20
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_SCOPE")); err == nil {
		sequences, worlds = n, 200
	} else if testing.Short() {
		sequences, worlds = 200, 10
	}
	var mu sync.Mutex
	did := 0
	t.Run("worlds", func(t *testing.T) {
		for seed := range worlds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, uint64(seed))
				for range sequences / worlds {
					w.sequence()
				}
				if len(w.escapes) > 0 {
					t.Errorf("%d escapes, the first %s\n%+v", len(w.escapes), w.escapes[0], w.grants)
				}
				mu.Lock()
				defer mu.Unlock()
				did += w.did
			})
		}
	})
	t.Logf("scope: %d sequences, %d things done, 0 escapes", sequences, did)
	if did < 3*sequences {
		t.Errorf("only %d things were done", did)
	}
}
