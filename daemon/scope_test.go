package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	stdpath "path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/cron"
	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Names that a test may permit to an agent.
var (
	cast    = []string{"crab", "alef", "bet", "gimel"}
	talents = []string{"feeds", "mails", "notes", "sums"}
	servers = []string{"search", "mail"}
	// remotes are tools of the servers. The name only is alone.
	remotes = []string{"search/get-a", "search/get-b", "search/put", "mail/get-a", "mail/only"}
	// listings list tools of the servers.
	listings = []string{"search/get-*", "search/put", "search/*", "mail/get-a", "mail/only", "only", "onl*", "get-a", "*/*", "s*/put"}
	allTools = []string{"bash", "read", "edit", "list", "write", "ask_user", "delegate", "skill", "mcp", "recall", "remember", "forget", "session_search", "weather"}
)

// granted is the configuration of an agent's permissions and spaces. tools is nil for
// an absent list.
type granted struct {
	tools, skills, mcps, members []string
	space                        string
	reads                        []string
}

func (g granted) scoped() bool { return g.tools != nil || len(g.skills)+len(g.mcps)+len(g.members) > 0 }

// mayAlone is an independent model of the scope rules (RFC 0082; DESIGN.md,
// Scopes). It reports whether the agent may do that for its own user.
func (g granted) mayAlone(who, kind, name string) bool {
	scoped := g.scoped()
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
	if g.tools != nil && !slices.Contains(g.tools, name) {
		return false
	}
	if name == "list" || name == "write" {
		return slices.Contains(g.tools, name) // only if its list names them
	}
	if len(g.skills)+len(g.mcps)+len(g.members) == 0 {
		return true // only its tools list restricts it
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

// mayRemote reports whether the agent may have a tool of a server called, through the tool
// mcp or by its name. listed reports whether its list of tools has the tool.
func (g granted) mayRemote(server, name string) (may, listed bool) {
	if len(g.mcps) > 0 && !slices.Contains(g.mcps, server) || len(g.mcps) == 0 && len(g.skills)+len(g.members) > 0 {
		return false, false
	}
	other := false // the list has a tool of the server
	for _, l := range g.tools {
		switch l {
		case server + "/" + name, server + "/*":
			listed = true
		case server + "/get-*":
			listed = listed || strings.HasPrefix(name, "get-")
		case "only":
			listed = listed || name == l && len(g.mcps) > 0
		case "onl*":
			listed = listed || name == "only"
		}
		other = other || strings.HasPrefix(l, server+"/")
	}
	return listed || !other && (g.tools == nil || slices.Contains(g.tools, "mcp")), listed
}

// allowedBySkill is the tools that each skill permits.
var allowedBySkill = map[string][]string{"feeds": {"skill", "weather", "delegate"}, "notes": nil, "sums": {"recall", "mcp", "skill", "delegate", "bash"}, "mails": {"skill", "mail/get-a", "delegate"}}

// A world is a daemon with a random model, and a record of all actions.
type world struct {
	t      *testing.T
	d      *Daemon
	fs     vfs.FS
	grants map[string]granted
	rules  standings
	write  func() // config.toml, with new rules

	mu      sync.Mutex
	rng     *rand.Rand
	left    int // actions of this sequence
	talks   []talk
	escapes []string
	figures
}

// figures count actions.
type figures struct {
	did       int            // all, allowed ones
	remote    int            // of runs with a remote creator or sender
	bash      int            // calls of bash
	confined  int            // of them, in confinement
	delegated int            // of the confined calls, those of a delegate
	continued int            // sequences in a session of an earlier sequence
	mixed     int            // of them, with a sender other than the creator
	crons     int            // of them, as entries of the cron table
	reads     int            // entries that recall returned
	writes    int            // entries that remember wrote
	forgot    int            // entries that forget removed
	archives  int            // summaries in a space
	searched  int            // texts that session_search returned
	own       int            // of the writes, in the space of a sender
	remotes   map[string]int // calls of tools of servers, through mcp and by their names (tool)
}

func (f *figures) add(o figures) {
	f.did += o.did
	f.remote += o.remote
	f.bash += o.bash
	f.confined += o.confined
	f.delegated += o.delegated
	f.continued += o.continued
	f.mixed += o.mixed
	f.crons += o.crons
	f.reads += o.reads
	f.writes += o.writes
	f.forgot += o.forgot
	f.archives += o.archives
	f.searched += o.searched
	f.own += o.own
	for kind, n := range o.remotes {
		if f.remotes == nil {
			f.remotes = make(map[string]int)
		}
		f.remotes[kind] += n
	}
}

// talk is a session that later sequences may continue.
type talk struct {
	agent   string
	creator string
	id      uint64
	stored  string
	closed  bool // the daemon no longer has it loaded
}

// may reports whether every agent and every identity on a path may do that. The last agent
// must list a tool of a server that is called by its name.
func (w *world) may(at, kind, name string) bool {
	p := parsePath(at)
	if server, remote, ok := strings.Cut(name, "/"); ok {
		return w.mayRemote(p, kind, server, remote)
	}
	for _, id := range p.identities {
		if st, _ := w.rules.of(id); !st.allows(kind, name) {
			return false
		}
	}
	for _, step := range p.steps {
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

func (w *world) mayRemote(p path, kind, server, name string) bool {
	for _, id := range p.identities {
		if st, _ := w.rules.of(id); !st.allows("mcp", server) {
			return false
		}
	}
	for i, step := range p.steps {
		parts := strings.Split(step, "+")
		may, listed := w.grants[parts[0]].mayRemote(server, name)
		if !may || kind == "tool" && i == len(p.steps)-1 && !listed {
			return false
		}
		for _, sk := range parts[1:] {
			allowed := allowedBySkill[sk]
			if allowed == nil || slices.Contains(allowed, server+"/"+name) {
				continue
			}
			if !slices.Contains(allowed, "mcp") || slices.ContainsFunc(allowed, func(l string) bool { return strings.HasPrefix(l, server+"/") }) {
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
	if strings.Contains(strings.Join(parsePath(at).identities, ""), ":") {
		w.remote++
	}
	if !w.may(at, kind, name) {
		w.escapes = append(w.escapes, fmt.Sprintf("%s: %s %s", at, kind, name))
	}
}

// recordBash records a call of bash. It must be confined if the configuration
// bounds an agent of the path, and only then.
func (w *world) recordBash(at string, confined bool) {
	w.record(at, "tool", "bash")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bash++
	p := parsePath(at)
	want := len(w.rules.restricted(p)) > 0
	for _, step := range p.steps {
		who, _, _ := strings.Cut(step, "+")
		want = want || w.grants[who].scoped()
	}
	if confined != want {
		w.escapes = append(w.escapes, fmt.Sprintf("%s: bash with confinement %v, want %v", at, confined, want))
	}
	if confined {
		w.confined++
		if len(p.steps) > 1 {
			w.delegated++
		}
	}
}

// Send and Stream make world a model.
func (w *world) Send(ctx context.Context, q model.Request) (*model.Response, error) {
	return &model.Response{Message: sessionlog.Message{Role: "assistant", Content: "summary " + w.where(q.Messages)}, Finish: "stop"}, nil
}

// where returns the path of the run: the newest in the conversation, with the
// skills that were loaded since.
func (w *world) where(ms []sessionlog.Message) string {
	at := ""
	for _, m := range ms {
		if m.Role == record.RoleSystem {
			continue
		}
		for _, word := range strings.Fields(m.Content) {
			if p, ok := strings.CutPrefix(word, "at="); ok && m.Role == record.RoleUser {
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
		switch w.rng.IntN(6) {
		case 0:
			name = "bash" // the tool that confinement is for
		case 1:
			name = remotes[w.rng.IntN(len(remotes))]
		}
		args := map[string]any{"at": at}
		switch name {
		case "delegate":
			to := cast[w.rng.IntN(len(cast))]
			message := "go at=" + at + ">" + to
			if w.rng.IntN(3) == 0 {
				message = "/" + talents[w.rng.IntN(len(talents))] + " " + message
			}
			args["tasks"] = []map[string]string{{"agent": to, "message": message}}
		case "skill":
			args["name"] = talents[w.rng.IntN(len(talents))]
		case "mcp":
			args["server"], args["name"], _ = strings.Cut(remotes[w.rng.IntN(len(remotes))], "/")
		case "recall":
			args["query"] = "mark"
			if w.rng.IntN(3) == 0 {
				args["names"] = []string{"mark"}
			} else if w.rng.IntN(2) == 0 {
				args["query"], args["in"], args["limit"] = "go", "sessions", 20
			}
		case "session_search":
			args["query"], args["limit"] = "go", 20
		case "remember":
			args["name"], args["content"] = fmt.Sprint("note", w.rng.IntN(9)), "by="+at
		case "forget":
			args["name"] = "victim-" + spaceNames[w.rng.IntN(len(spaceNames))]
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
		w.record(at, "tool", t.Name) // the model received it
	}
	return func(yield func(model.Chunk, error) bool) {
		if len(c.Calls) == 0 {
			c.Content = "done"
		}
		c.Finish = "stop"
		yield(c, nil)
	}
}

// fixtures replaces the tools with external effects by tools that record their
// callers.
func (w *world) fixtures(set *tool.Set) {
	set.Remote, set.Ready = w.remoteTools, nil
	type args struct {
		At     string `json:"at"`
		Name   string `json:"name"`
		Server string `json:"server"`
		Query  string `json:"query"`
	}
	for _, name := range allTools {
		real, _ := set.Get(name)
		set.Add(tool.New(name, "", func(ctx context.Context, c tool.Call, a args) (string, error) {
			if name == "bash" {
				w.recordBash(a.At, c.Scope.Confined)
				return "ok", nil
			}
			w.record(a.At, "tool", name)
			switch name {
			case "read", "edit", "list", "write", "weather":
				return "ok", nil
			case "mcp":
				if err := c.Scope.Server(a.Server); err != nil {
					return "", err
				}
				w.record(a.At, "mcp", a.Server)
				if err := c.Scope.Remote(a.Server, a.Name, a.Name == "only"); err != nil {
					return "", err
				}
				w.recordRemote(a.At, "mcp", a.Server+"/"+a.Name)
				return "ok", nil
			}
			out, err := real.Run(ctx, c)
			w.remembered(a.At, name, out)
			out = strings.ReplaceAll(out, "loaded=", "was=") // of a session that was found
			if name == "skill" && err == nil && strings.Contains(out, "Skill directory") {
				w.record(a.At, "skill", a.Name)
				out = "loaded=" + a.Name
			}
			return out, err
		}))
	}
}

// remoteTools returns the tools of servers that a scope lists. They record their callers.
func (w *world) remoteTools(scope tool.Scope) (list []tool.Tool) {
	for _, name := range remotes {
		server, remote, _ := strings.Cut(name, "/")
		if !scope.Lists(server, remote, remote == "only") {
			continue
		}
		list = append(list, tool.New(name, "", func(_ context.Context, _ tool.Call, a struct {
			At string `json:"at"`
		}) (string, error) {
			w.recordRemote(a.At, "tool", name)
			return "ok", nil
		}))
	}
	return list
}

// recordRemote records a call of a tool of a server.
func (w *world) recordRemote(at, kind, name string) {
	w.record(at, kind, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remotes[kind]++
}

// partOf returns a random part of a list, often an empty one.
func partOf(r *rand.Rand, list []string) []string {
	if r.IntN(2) == 0 {
		return nil
	}
	part := []string{}
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
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), grants: make(map[string]granted), figures: figures{remotes: make(map[string]int)}}
	fs := faultfs.NewMem()
	write := func(name, text string) {
		if err := vfs.MkdirAll(fs, stdpath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := vfs.Replace(fs, name, 0o600, func(f io.Writer) error { _, err := io.WriteString(f, text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	const home = worldHome
	w.fs = fs
	for _, name := range spaceNames[1:] {
		if err := (&space.Home{FS: fs, Path: home}).Create(name, 9); err != nil {
			t.Fatal(err)
		}
	}
	var config strings.Builder
	for _, name := range cast {
		g := granted{tools: partOf(w.rng, append(slices.Clone(allTools), listings...)), skills: partOf(w.rng, talents), mcps: partOf(w.rng, servers), members: partOf(w.rng, cast)}
		if w.rng.IntN(6) == 0 {
			g.tools = []string{}
		}
		if name == "crab" && w.rng.IntN(2) == 0 {
			g = granted{}
		}
		g.space, g.reads = spaceNames[w.rng.IntN(3)], partOf(w.rng, spaceNames)
		g.members = slices.DeleteFunc(g.members, func(m string) bool { return m == name })
		w.grants[name] = g
		table := "[agents." + name + "]\nprompt = \"x\"\n"
		if name == "crab" {
			table = "[system.crab]\n"
		}
		if g.tools != nil {
			table += "tools = " + quotedList(g.tools) + "\n"
		}
		fmt.Fprintf(&config, "%smax_iterations = 4\ncompact_threshold = 1000\nskills = %s\nmcps = %s\nmembers = %s\nmemory = %q\nmemory_read = %s\n",
			table, quotedList(g.skills), quotedList(g.mcps), quotedList(g.members), g.space, quotedList(g.reads))
	}
	fmt.Fprintf(&config, "[mcps.search]\nurl = \"http://127.0.0.1:1/mcp\"\n[mcps.mail]\nurl = \"http://127.0.0.1:2/mcp\"\n")
	config.WriteString("[limits]\nuntrusted_runs_per_minute = 0\ntrusted_runs_per_minute = 0\n")
	config.WriteString("[tools.bash]\napprove = \"off\"\n") // without a person, commands would not run
	w.write = func() {
		w.rules = make(standings)
		text := config.String()
		for _, prefix := range rulePrefixes {
			if w.rng.IntN(3) > 0 {
				w.rules[prefix] = randomStanding(w.rng)
				text += fmt.Sprintf("[origins.%q]\n%v", prefix, w.rules[prefix])
			}
		}
		write(home+"/config.toml", text)
	}
	w.write()
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
	w.useModel()
	for _, name := range spaceNames {
		w.put(name, "mark")
		w.put(name, "victim-"+name)
	}
	return w
}

const worldHome = "/home/crab"

// useModel makes the world the active model.
func (w *world) useModel() {
	w.t.Helper()
	models := w.d.setup().models
	if err := models.AddBackend("random", 1<<21, w); err != nil {
		w.t.Fatal(err)
	}
	if err := models.Switch("random"); err != nil {
		w.t.Fatal(err)
	}
}

// changeRules replaces the rules for identities, which then hold for old sessions.
func (w *world) changeRules() {
	w.t.Helper()
	w.write()
	if err := w.d.Reload(); err != nil {
		w.t.Fatal(err)
	}
	w.useModel()
}

// sequence has one agent work on one message, in a new session or in one of an
// earlier sequence.
func (w *world) sequence() {
	w.t.Helper()
	sender := localSenders[w.rng.IntN(len(localSenders))]
	if w.rng.IntN(3) == 0 {
		sender = remoteSenders[w.rng.IntN(len(remoteSenders))]
	}
	m := &pb.SendMsg{Sender: &sender}
	t := talk{agent: cast[w.rng.IntN(len(cast))], creator: sender}
	known := -1
	if len(w.talks) > 0 && w.rng.IntN(2) == 0 {
		known = w.rng.IntN(len(w.talks))
		t = w.talks[known]
		w.continued++
		if sender != "" && sender != t.creator {
			w.mixed++
		}
	}
	switch m.Agent = t.agent; {
	case known < 0:
		m.NewChat = true
	case t.closed || w.rng.IntN(4) == 0:
		m.ResumeFile = &t.stored
	default:
		m.Session = &t.id
	}
	m.Content = "go at=" + t.agent + "|" + t.creator + "|" + sender
	if w.rng.IntN(3) == 0 {
		m.Content = "/" + talents[w.rng.IntN(len(talents))] + " " + m.Content
	}
	w.left = 12
	var err error
	if sender == trust.Cron && m.Session != nil {
		args, _ := strings.CutPrefix(m.Content, "/")
		err = w.d.runCron(w.t.Context(), cron.Cron{Session: t.id, SessionFile: t.stored, Skill: talents[w.rng.IntN(len(talents))], Args: args})
		if _, refused := errors.AsType[*tool.Violation](err); refused {
			err = nil // of the skill, before the run
		} else {
			w.crons++
		}
	} else {
		err = w.d.send(&request{ctx: w.t.Context(), send: func(*pb.ServerMessage) error { return nil }}, m)
	}
	if err != nil && !strings.Contains(err.Error(), "step limit reached before a response") {
		w.t.Fatal(err)
	}
	w.checkSpaces()
	w.keep(t, known)
}

// keep closes some sessions, and remembers up to four for later sequences.
func (w *world) keep(t talk, known int) {
	list := w.d.loaded.List()
	if l := list[len(list)-1]; known < 0 || t.closed {
		t.id, t.stored, t.closed = l.ID(), l.StoredID(), false
	}
	if known < 0 {
		w.talks = append(w.talks, t)
		known = len(w.talks) - 1
	}
	w.talks[known] = t
	if len(w.talks) > 4 {
		w.talks = slices.Delete(w.talks, 0, 1)
	}
	for _, l := range list {
		i := slices.IndexFunc(w.talks, func(t talk) bool { return !t.closed && t.id == l.ID() })
		if i >= 0 && w.rng.IntN(4) > 0 {
			continue
		}
		if i >= 0 {
			w.talks[i].closed = true
		}
		w.d.loaded.Kill(l)
	}
}

// TestScopesNeverWiden has random agents perform random actions: calls,
// delegations, slash commands, skills that narrow, compactions, and crons, for
// senders of several services with random rules, in new sessions and in sessions of
// other senders. No action may exceed the permissions of any agent or identity in
// its chain, also in the memory: the spaces that are read and written, archives,
// and the sessions that are searched. bash must run confined if the configuration
// restricts any of them. CRABMEM_SCOPE is the number of sequences.
func TestScopesNeverWiden(t *testing.T) {
	sequences, worlds := 2000, 20
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_SCOPE")); err == nil {
		sequences, worlds = n, 200
	} else if testing.Short() {
		sequences, worlds = 200, 20
	}
	var mu sync.Mutex
	var all figures
	t.Run("worlds", func(t *testing.T) {
		for seed := range worlds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, uint64(seed))
				for i := range sequences / worlds {
					if i%25 == 24 {
						w.changeRules()
					}
					w.sequence()
				}
				if len(w.escapes) > 0 {
					t.Errorf("%d escapes, the first %s\n%+v", len(w.escapes), w.escapes[0], w.grants)
				}
				mu.Lock()
				defer mu.Unlock()
				all.add(w.figures)
			})
		}
	})
	t.Logf("scope: %d sequences, %d things done, 0 escapes; %d of remote senders, %d calls of bash, %d confined, %d of those by delegates",
		sequences, all.did, all.remote, all.bash, all.confined, all.delegated)
	t.Logf("spaces: %d reads, %d writes (%d to the space of a sender), %d removals, %d archives, %d texts of sessions, %d crons",
		all.reads, all.writes, all.own, all.forgot, all.archives, all.searched, all.crons)
	t.Logf("mcp: %d calls of tools of servers through mcp, %d by their names", all.remotes["mcp"], all.remotes["tool"])
	if all.remotes["mcp"] == 0 || all.remotes["tool"] == 0 {
		t.Error("no tool of a server was called through mcp, or by its name")
	}
	if all.did < 3*sequences {
		t.Errorf("only %d things were done", all.did)
	}
	if all.remote == 0 || all.confined == 0 || all.bash == all.confined || all.delegated == 0 || all.continued == 0 || all.mixed == 0 ||
		all.reads == 0 || all.writes == 0 || all.own == 0 || all.forgot == 0 || all.archives == 0 || all.searched == 0 || all.crons == 0 {
		t.Errorf("an action never happened: %+v", all)
	}
}

// TestRemoteSendersHaveNoShell calls bash in runs of each origin. A run has bash
// only if neither the creator of its session nor its sender is remote, also
// after the session was closed and resumed.
func TestRemoteSendersHaveNoShell(t *testing.T) {
	for _, c := range []struct {
		creator, sender string
		want            bool
	}{
		{"", "", true}, {"ann", "ann", true}, {"ann", "bob", true}, {"ann", "cron", true},
		{"ann", "tg:7", false}, {"tg:7", "ann", false}, {"tg:7", "tg:7", false}, {"tg:7", "", false}, {"tg:7", "slack:U02", false}, {"user", "mail:a@b", false},
	} {
		for _, resume := range []bool{false, true} {
			ran := 0
			m := modeltest.New(t, modeltest.Say("begun"), modeltest.Call("bash", `{}`), modeltest.Say("done"))
			s := serve(t, home(t), scripted(m), func(o *Options) {
				o.Hooks.RegisterTools = func(set *tool.Set) {
					set.Add(tool.New("bash", "", func(context.Context, tool.Call, struct{}) (string, error) {
						ran++
						return "ok", nil
					}))
				}
			})
			begun := s.one(send(&pb.SendMsg{Content: "begin", Sender: &c.creator})).GetResponse()
			next := &pb.SendMsg{Content: "go", Sender: &c.sender, Session: &begun.Session}
			if resume {
				id := s.stored(begun.Session)
				s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: begun.Session}}})
				next.Session, next.ResumeFile = nil, &id
			}
			if r := s.one(send(next)).GetResponse(); r.GetContent() != "done" {
				t.Errorf("%+v: answered %q", c, r.GetContent())
			}
			if (ran > 0) != c.want {
				t.Errorf("%+v, resumed %v: bash ran %d times", c, resume, ran)
			}
			s.stop()
		}
	}
}
