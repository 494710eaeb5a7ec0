package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/workspace"
	"crabmem/fuzz/seed"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const workspaceHome = "/home/crab"

// place is a directory from which requests come: a workspace, or one outside all.
type place struct {
	name, dir string
	version   int // of the agent's prompt

	trusted, broken, gone, changed bool
	notes                          []string
	session                        string // the newest one in the workspace
}

// root returns the path of the workspace.
func (p *place) root() string { return "/w/" + p.name }

// inEffect reports whether the files of the place have an effect.
func (p *place) inEffect() bool {
	return p.trusted && !p.broken && !p.gone && !p.changed
}

// workspaceWorld is a home, and two workspaces with the same names in them.
type workspaceWorld struct {
	t      *testing.T
	fs     *faultfs.Mem
	d      *Daemon
	model  *scripts
	places []*place
	home   *place // outside all workspaces
	made   int    // notes
}

// serveWhere runs an MCP server with the tool where, which answers with a name.
func serveWhere(t *testing.T, name string) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "where"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "where"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "server of " + name}}}, nil, nil
	})
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(h.Close)
	return h.URL
}

// newWorkspaceWorld returns a world. server returns the address of a place's MCP server, or "".
func newWorkspaceWorld(t *testing.T, server func(name string) string) *workspaceWorld {
	w := &workspaceWorld{t: t, fs: faultfs.NewMem(), model: &scripts{}}
	w.write(workspaceHome+"/config.toml", "[sessions]\ntitles = \"off\"\n[agents.default]\nprompt = \"prompt-0-of-home\"\n"+mcpTable("[mcps.where]\n", server("home")))
	w.write(workspaceHome+"/skills/greet/SKILL.md", "---\nname: greet\ndescription: greets\n---\ngreet of home\n")
	w.home = &place{name: "home", dir: "/elsewhere"}
	w.check(vfs.MkdirAll(w.fs, w.home.dir, 0o700))
	w.places = []*place{w.home}
	for _, name := range []string{"a", "b"} {
		p := &place{name: name}
		p.dir = p.root() + "/src"
		w.check(vfs.MkdirAll(w.fs, p.dir, 0o700))
		w.writeMain(p)
		w.writeAgent(p)
		w.write(p.root()+"/skills/greet/SKILL.md", "---\nname: greet\ndescription: greets\n---\ngreet of "+name+"\n")
		if of := mcpTable("", server(name)); of != "" {
			w.write(p.root()+"/mcp/where.toml", of)
		}
		w.trust(p, false)
		w.places = append(w.places, p)
	}
	w.open()
	return w
}

// mcpTable returns the table of a server, or "" without an address.
func mcpTable(head, url string) string {
	if url == "" {
		return ""
	}
	return head + "url = \"" + url + "\"\n"
}

func (w *workspaceWorld) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *workspaceWorld) write(name, text string) {
	w.t.Helper()
	w.check(vfs.MkdirAll(w.fs, filepath.Dir(name), 0o700))
	w.check(vfs.WriteFile(w.fs, name, 0o600, []byte(text)))
}

func (w *workspaceWorld) writeMain(p *place) {
	w.write(p.root()+"/crabmem.toml", "[memory]\nproject = true\n")
}

func (w *workspaceWorld) writeAgent(p *place) {
	w.write(p.root()+"/agents/default.toml", fmt.Sprintf("system_prompt = \"prompt-%d-of-%s\"\n", p.version, p.name))
}

// trust has the user trust the files as they are.
func (w *workspaceWorld) trust(p *place, crons bool) {
	w.t.Helper()
	of, err := workspace.Load(w.fs, p.root()+"/crabmem.toml")
	w.check(err)
	_, err = workspace.SetTrust(w.fs, workspaceHome, p.root(), &workspace.Trust{Digest: of.Digest, Memory: of.Memory, Crons: crons}, 0)
	w.check(err)
	p.trusted, p.changed = true, false
}

func (w *workspaceWorld) open() {
	w.t.Helper()
	var err error
	w.d, err = Open(Options{Home: workspaceHome, FS: w.fs, Getenv: func(string) string { return "" }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Offline: w.model})
	w.check(err)
}

// say sends a message from a place, and returns the answer and the request of the model.
func (w *workspaceWorld) say(p *place, m op.Message) (op.Answer, string, error) {
	m.Dir = p.dir
	w.model.mu.Lock()
	w.model.took = nil
	w.model.mu.Unlock()
	a, err := w.d.converse(w.t.Context(), &m, nil)
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	system := ""
	if len(w.model.took) > 0 {
		system = w.model.took[0].Messages[0].Content
	}
	return a, system, err
}

// step makes a random request or change, and checks the answer.
func (w *workspaceWorld) step(r *rand.Rand) string {
	p := w.places[r.IntN(len(w.places))]
	if r.IntN(4) == 0 {
		return w.change(r, p)
	}
	of := p // whose agents and notes serve the request
	if !p.inEffect() {
		of = w.home
	}
	content, check := w.request(r, of)
	did := p.name + ": " + content
	a, system, err := w.say(p, op.Message{Content: content})
	switch refused := p.trusted && p.changed && !p.broken && !p.gone; {
	case p.gone:
		if err == nil || !strings.Contains(err.Error(), "not a directory") {
			w.t.Fatalf("%s: %v, want an error", did, err)
		}
		return did
	case refused:
		if err == nil || !strings.Contains(err.Error(), "it is changed") {
			w.t.Fatalf("%s: %v, want a refusal", did, err)
		}
		return did
	case err != nil:
		w.t.Fatalf("%s: %v", did, err)
	}
	want, agent := fmt.Sprintf("prompt-%d-of-%s", p.version, p.name), "default"
	if of == w.home {
		want, agent = "", "crab"
	}
	if got := strings.Contains(system, "-of-"); !strings.Contains(system, want) || got != (want != "") || a.Agent != agent {
		w.t.Fatalf("%s: agent %s, the prompt is\n%s", did, a.Agent, system)
	}
	if of.session == "" {
		of.session = a.Session
	} else if of.session != a.Session {
		w.t.Fatalf("%s: session %s, want %s", did, a.Session, of.session)
	}
	if why := check(a.Content); why != "" {
		w.t.Fatalf("%s: %s:\n%s", did, why, a.Content)
	}
	return did
}

// request returns a message to the agent of a place, and the check of its answer.
func (w *workspaceWorld) request(r *rand.Rand, of *place) (content string, check func(answer string) string) {
	own := func(prefix string) func(string) string { // the answer names no other place
		return func(answer string) string {
			for _, p := range w.places {
				if p != of && strings.Contains(answer, prefix+p.name) {
					return "it is of " + p.name
				}
			}
			return ""
		}
	}
	has := func(text string) func(string) string {
		return func(answer string) string {
			if !strings.Contains(answer, text) {
				return "want " + text
			}
			return own(strings.TrimSuffix(text, of.name))(answer)
		}
	}
	switch r.IntN(6) {
	case 0:
		w.made++
		name := fmt.Sprintf("note %d", w.made)
		return fmt.Sprintf(`remember {"name":%q,"content":"common words of-%s"}`, name, of.name), func(answer string) string {
			if !strings.HasPrefix(answer, "remembered: "+name) {
				return "want it stored"
			}
			of.notes = append(of.notes, name)
			return ""
		}
	case 1:
		return `recall {"query":"common words"}`, func(answer string) string {
			if len(of.notes) > 0 && !strings.Contains(answer, "of-"+of.name) {
				return "want a note"
			}
			return own("of-")(answer)
		}
	case 2:
		return `skill {"name":"greet"}`, has("greet of " + of.name)
	case 3:
		return `mcp {"name":"where"}`, has("server of " + of.name)
	case 4:
		return `session_search {"query":"common words","limit":20}`, own("of-")
	}
	return "hello", func(string) string { return "" }
}

// change changes a workspace as its user or a git pull does, or restarts the daemon.
func (w *workspaceWorld) change(r *rand.Rand, p *place) string {
	if p == w.home {
		if r.IntN(2) == 0 {
			w.check(w.d.Reload())
			return "reload"
		}
		w.check(w.d.Close())
		w.open()
		return "restart"
	}
	what := r.IntN(5)
	switch {
	case p.gone:
		what = 0
		w.check(w.fs.Rename(p.root()+".away", p.root()))
		p.gone = false
	case p.broken:
		what = 1
		w.writeMain(p)
		p.broken = false
	case p.changed || !p.trusted:
		what = 2
		w.trust(p, false)
	case what == 0:
		w.check(w.fs.Rename(p.root(), p.root()+".away"))
		p.gone = true
	case what == 1:
		w.write(p.root()+"/crabmem.toml", "[provider.x]\n")
		p.broken = true
	case what == 2:
		_, err := workspace.SetTrust(w.fs, workspaceHome, p.root(), nil, 0)
		w.check(err)
		p.trusted = false
	default:
		p.version++
		w.writeAgent(p)
		p.changed = true
	}
	return p.name + ": change " + strconv.Itoa(what)
}

// verify compares the stores and the sessions with the model.
func (w *workspaceWorld) verify() {
	w.t.Helper()
	for _, p := range w.places {
		name := space.Main
		if p != w.home {
			if p.gone || !p.trusted || p.broken || len(p.notes) == 0 {
				continue
			}
			name = space.OfWorkspace(p.root())
		}
		var got []string
		w.check(w.d.inSpace(name, func(s *crmem.Store) error {
			for e := range s.All() {
				if e.Kind == crmem.Note {
					got = append(got, e.Name)
				}
			}
			return nil
		}))
		slices.Sort(got)
		want := slices.Sorted(slices.Values(p.notes))
		if !slices.Equal(got, want) {
			w.t.Errorf("%s has the notes %v, want %v", p.name, got, want)
		}
	}
	list, err := w.d.sessions.List()
	w.check(err)
	for _, i := range list {
		if at := slices.IndexFunc(w.places, func(p *place) bool { return p.session == i.ID }); at < 0 || (w.places[at] == w.home) != (i.Meta.Workspace == "") {
			w.t.Errorf("session %s is of %q", i.ID, i.Meta.Workspace)
		}
	}
}

// TestWorkspaces makes random requests from two workspaces with the same names of agents,
// skills, and servers, and from outside, while the workspaces change, break, disappear, and
// lose their trust. Each request has its own agent, notes, and session. CRABMEM_WORKSPACE_STEPS
// sets the number of steps.
func TestWorkspaces(t *testing.T) {
	steps := 300
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_WORKSPACE_STEPS")); err == nil {
		steps = n
	}
	w := newWorkspaceWorld(t, func(name string) string { return serveWhere(t, name) })
	defer func() { w.check(w.d.Close()) }()
	r := seed.Random(t)
	var did []string
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(did[max(0, len(did)-20):], "\n"))
		}
	}()
	for range steps {
		did = append(did, w.step(r))
	}
	w.verify()
	t.Logf("%d steps, %d notes", steps, w.made)
}
