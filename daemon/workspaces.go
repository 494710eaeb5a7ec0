package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"crabmem/crmem"
	"crabmem/daemon/config"
	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/mcp"
	"crabmem/daemon/session"
	"crabmem/daemon/skill"
	"crabmem/daemon/space"
	"crabmem/daemon/workspace"
)

// workspaces are the loaded workspaces by path. Each is loaded at its first use, and again
// after a change of its files or of the home's configuration.
type workspaces struct {
	mu     sync.Mutex
	loaded map[string]*inWorkspace
	warned map[string]string // problems as logged last, by path

	storing sync.Mutex // one at a time has the store of a workspace
}

// inWorkspace is a loaded workspace: its setup, and the setup of the home on which it is built.
type inWorkspace struct {
	*workspace.Workspace
	setup, base *setup
	servers     *mcp.Manager
	stale       atomic.Bool // the list of servers changed
}

// close disconnects the servers of the workspace.
func (w *inWorkspace) close() { w.servers.Close() }

// readWorkspace reads the workspace at root, and the trust in all workspaces.
func (d *Daemon) readWorkspace(root string) (*workspace.Workspace, workspace.Trusts, error) {
	trusts, err := workspace.ReadTrusts(d.fs, d.home)
	if err != nil {
		return nil, nil, err
	}
	file := workspace.Find(d.fs, root, d.home)
	if file == "" || filepath.Dir(file) != root {
		return nil, trusts, noEffect(root, "missing", "restore its "+workspace.File+", or begin a new session elsewhere")
	}
	w, err := workspace.Load(d.fs, file)
	return w, trusts, err
}

// noEffect returns the error of a workspace in a state.
func noEffect(root, state, fix string) error {
	return &errtable.Error{Kind: "no_workspace", HTTP: http.StatusForbidden, Exit: errtable.ExitPermission, Path: root, Fix: fix,
		Message: fmt.Sprintf("the workspace %s has no effect: it is %s", root, state)}
}

// notTrusted is the error of a workspace that is not trusted.
type notTrusted struct {
	error
	state workspace.State
}

func (e *notTrusted) Unwrap() error { return e.error }

// setupOf returns the setup for the sessions in a workspace, or outside all if root is "". Only
// a workspace has one whose files are as the user accepted them.
func (d *Daemon) setupOf(root string) (*setup, error) {
	if root == "" {
		return d.setup(), nil
	}
	ws := &d.workspaces
	ws.mu.Lock()
	defer ws.mu.Unlock()
	have := ws.loaded[root]
	w, trusts, err := d.readWorkspace(root)
	if err == nil && trusts.State(w) != workspace.Trusted {
		err = &notTrusted{noEffect(root, string(trusts.State(w)), "run crabmem workspace trust "+errtable.ShellWord(root)), trusts.State(w)}
	}
	if err != nil {
		if have != nil {
			delete(ws.loaded, root)
			have.close()
		}
		if ws.warned[root] != err.Error() {
			d.log.Warn("workspace", "error", err)
		}
		ws.warned[root] = err.Error()
		return nil, err
	}
	delete(ws.warned, root)
	if have == nil {
		have = &inWorkspace{}
		have.servers = mcp.New(mcp.Options{FS: d.fs, Log: d.log.With("workspace", root), Version: d.opts.Version, Reserved: d.isTool, Leaves: d.leaves,
			Over: d.mcp, Changed: func() { have.stale.Store(true) }})
		ws.loaded[root] = have
	}
	if base := d.setup(); have.stale.Swap(false) || have.base != base || have.Digest != w.Digest {
		have.Workspace, have.base = w, base
		d.buildIn(have)
	}
	return have.setup, nil
}

// buildIn builds the setup of a workspace over that of the home. An agent, a skill, or a server of
// the workspace hides one of the home with its name.
func (d *Daemon) buildIn(w *inWorkspace) {
	c := *w.base.config
	agents, own := make(map[string]config.Agent), make(map[string]bool)
	for _, a := range c.Agents {
		agents[a.Name] = a
	}
	for _, a := range w.Agents {
		_, own[a.Name] = agents[a.Name]
		agents[a.Name] = a
	}
	c.Agents = slices.Collect(maps.Values(agents))
	sort.Slice(c.Agents, func(i, j int) bool { return c.Agents[i].Name < c.Agents[j].Name })
	servers := d.mcpServers(&config.Config{MCPs: w.MCPs})
	for i := range servers {
		servers[i].Dir = w.Root
	}
	w.servers.Set(servers)
	s := &setup{config: &c, own: own, models: w.base.models, servers: w.servers, skills: skill.Load(d.fs, SkillDirsIn(w.Root, &c), func(err error) {
		d.log.Warn("ignored a skill", "workspace", w.Root, "error", err)
	})}
	if _, ok := own[workspace.Agent]; ok {
		s.agent = workspace.Agent
	}
	root := w.Root
	s.skills.Check = func() error { _, err := d.setupOf(root); return err }
	d.buildRunner(s)
	d.buildAgents(s)
	w.setup = s
}

// workspaceCrons returns the entries of the workspaces that the user permits.
func (d *Daemon) workspaceCrons() (list []cron.Cron) {
	trusts, err := workspace.ReadTrusts(d.fs, d.home)
	if err != nil {
		return nil // setupOf says it
	}
	for _, root := range trusts.Paths() {
		if !trusts[root].Crons {
			continue
		}
		if _, err := d.setupOf(root); err != nil {
			continue
		}
		d.workspaces.mu.Lock()
		if w := d.workspaces.loaded[root]; w != nil {
			for _, e := range w.Crons {
				c := e.Cron
				c.ID, c.SessionFile, c.Workspace, c.Name = workspaceCronID(root, e.Name), cron.NewSession, root, e.Name
				list = append(list, c)
			}
		}
		d.workspaces.mu.Unlock()
	}
	return list
}

// workspaceCronID returns the ID of an entry of a workspace. It is a large number that a JSON number
// can hold, and depends only on the path and the name.
func workspaceCronID(root, name string) uint64 {
	sum := sha256.Sum256([]byte(root + "\x00" + name))
	return 1<<52 | binary.BigEndian.Uint64(sum[:])>>16
}

// setupIn returns the setup that setupOf returned last, without a look at the files.
func (d *Daemon) setupIn(root string) *setup {
	d.workspaces.mu.Lock()
	defer d.workspaces.mu.Unlock()
	if w := d.workspaces.loaded[root]; w != nil && w.setup != nil {
		return w.setup
	}
	return d.setup()
}

// workspaceAt returns the path of the workspace in or above a directory, or "" if none there has
// an effect. At its first use, it waits for the workspace's servers. It returns an error for a
// workspace that changed: the notes of its sessions are not the home's.
func (d *Daemon) workspaceAt(ctx context.Context, dir string) (string, error) {
	file := workspace.Find(d.fs, dir, d.home)
	if file == "" {
		return "", nil
	}
	s, err := d.setupOf(filepath.Dir(file))
	if e, ok := errors.AsType[*notTrusted](err); ok && e.state == workspace.Changed {
		return "", err
	} else if err != nil {
		return "", nil // setupOf logged it
	}
	s.servers.Settle(ctx)
	return filepath.Dir(file), nil
}

// setupAt returns the setup for requests from a directory, as [op.Parts] says.
func (d *Daemon) setupAt(ctx context.Context, dir string) (session.Setup, string, error) {
	root := ""
	if dir != "" {
		var err error
		if root, err = d.workspaceAt(ctx, dir); err != nil {
			return session.Setup{}, "", err
		}
	}
	return d.setupIn(root).forSessions(), root, nil
}

// closeWorkspaces ends the servers of all workspaces.
func (d *Daemon) closeWorkspaces() {
	d.workspaces.mu.Lock()
	defer d.workspaces.mu.Unlock()
	for _, w := range d.workspaces.loaded {
		w.close()
	}
	clear(d.workspaces.loaded)
}

// setups returns the setups of the home and of all loaded workspaces.
func (d *Daemon) setups() []*setup {
	d.workspaces.mu.Lock()
	defer d.workspaces.mu.Unlock()
	list := []*setup{d.setup()}
	for _, w := range d.workspaces.loaded {
		list = append(list, w.setup)
	}
	return list
}

// storeOf returns the name of the space that is the store of a workspace, or "" if the sessions in
// it use the spaces of the home. A workspace that cannot be read keeps its store.
func (d *Daemon) storeOf(root string) string {
	if root == "" {
		return ""
	}
	w, trusts, err := d.readWorkspace(root)
	if err == nil && !trusts.UsesStore(w) || err != nil && !trusts[root].Memory {
		return ""
	}
	return space.OfWorkspace(root)
}

// useWorkspace calls f with the store of a workspace, which is a space with a name. A write creates
// it. The store is open during f only, because commands in the workspace open it, too.
func (d *Daemon) useWorkspace(name string, write bool, f func(*crmem.Store) error) error {
	trusts, err := workspace.ReadTrusts(d.fs, d.home)
	if err != nil {
		return err
	}
	for _, root := range trusts.Paths() {
		if space.OfWorkspace(root) != name || !trusts[root].Memory {
			continue
		}
		w, _, err := d.readWorkspace(root)
		if err != nil {
			return err
		}
		d.workspaces.storing.Lock()
		defer d.workspaces.storing.Unlock()
		s, err := d.openStore(w.Store(), !write)
		if err != nil {
			return err
		}
		err = f(s)
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		return err
	}
	return &errtable.Error{Kind: "not_found", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound, Err: crmem.ErrNoStore,
		Message: fmt.Sprintf("open space %q: its workspace is not trusted", name), Fix: "run crabmem workspace list"}
}
