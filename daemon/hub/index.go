package hub

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
)

const (
	maxManifest  = 16 << 10 // bytes
	maxManifests = 2000     // of a source
)

// A Hub is the sources of a home.
type Hub struct {
	FS      vfs.FS
	Home    string
	Sources []config.HubSource
}

// An Index is the manifests of all sources.
type Index struct {
	Resources []Resource
	Warnings  []string // manifests that are refused, and sources without a copy
}

// copyOf returns the copy of a source.
func (h *Hub) copyOf(s config.HubSource) bare {
	return bare{filepath.Join(h.Home, "hub", s.Name), s.Repo}
}

// Update replaces the copy of a source. The caller holds the lock of [Locked].
func (h *Hub) Update(ctx context.Context, s config.HubSource) error {
	to, next := h.copyOf(s), bare{}
	return inOrder(func() error { return config.CheckHubName(s.Name) },
		func() (err error) { next, _, err = h.fetch(ctx, s.Repo, ""); return err },
		func() error { return removeAll(h.FS, to.dir) },
		func() error { return h.FS.Rename(next.dir, to.dir) })
}

// fetch makes a copy of a repository, and returns it with the commit of ref.
func (h *Hub) fetch(ctx context.Context, repo, ref string) (r bare, commit string, err error) {
	r = bare{filepath.Join(h.Home, "hub", ".new"), repo}
	err = inOrder(func() error { return vfs.MkdirAll(h.FS, filepath.Dir(r.dir), 0o700) },
		func() error { return removeAll(h.FS, r.dir) },
		func() (err error) { commit, err = r.clone(ctx, ref); return err })
	return r, commit, err
}

// Forget removes the copy of a source. The caller holds the lock of [Locked].
func (h *Hub) Forget(name string) error { return removeAll(h.FS, filepath.Join(h.Home, "hub", name)) }

// Index reads the manifests of all copies.
func (h *Hub) Index(ctx context.Context) (*Index, error) {
	x, copies := new(Index), 0
	for _, s := range h.Sources {
		r := h.copyOf(s)
		err := r.isCopy(ctx, h.FS)
		if err == nil {
			copies++
			err = x.add(ctx, r, s)
		}
		if err != nil {
			x.Warnings = append(x.Warnings, "source "+s.Name+": "+err.Error())
		}
	}
	if copies > 0 {
		return x, nil
	}
	fix := "run crabmem hub update"
	if len(h.Sources) == 0 {
		fix = "run crabmem hub add-source NAME OWNER/REPO"
	}
	return nil, refusal(errtable.ExitNotFound, "not_found", "", fix, "no copy of a hub: %s", cmp.Or(strings.Join(x.Warnings, "; "), "no sources"))
}

// add adds the manifests of a copy.
func (x *Index) add(ctx context.Context, r bare, s config.HubSource) error {
	commit, err := r.commit(ctx, "HEAD")
	if err != nil {
		return err
	}
	all, err := r.list(ctx, commit, "-t", "skills/", "agents/", "mcp/", "workspaces/")
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(all, func(e entry) bool {
		name, ok := strings.CutSuffix(path.Base(e.path), ".toml")
		return !ok || e.mode != "100644" || e.size > maxManifest || config.CheckHubName(name) != nil
	})
	if len(list) > maxManifests {
		return fmt.Errorf("more than %d manifests", maxManifests)
	}
	texts, err := r.read(ctx, list)
	if err != nil {
		return err
	}
	names := make(map[string]bool)
	for i, e := range list {
		of := Resource{Source: s.Name, Repo: s.Repo, Commit: commit}
		err := of.parse(e.path, texts[i])
		if err == nil && names[of.Name] {
			err = fmt.Errorf("%s: %s: another resource has this name", s.Name, e.path)
		}
		if err != nil {
			x.Warnings = append(x.Warnings, err.Error())
			continue
		}
		names[of.Name] = true
		x.Resources = append(x.Resources, of)
	}
	return nil
}

// Search returns the resources that contain query, the best first.
func (x *Index) Search(query string) (found []Resource) {
	query = strings.ToLower(query)
	for rank := range 4 {
		for _, r := range x.Resources {
			if r.rank(query) == rank {
				found = append(found, r)
			}
		}
	}
	return found
}

// Find returns the resource of a name, or of SOURCE/NAME.
func (x *Index) Find(name string) (*Resource, error) {
	var found []*Resource
	for i := range x.Resources {
		if r := &x.Resources[i]; name == r.Name || name == r.Source+"/"+r.Name {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return nil, refusal(errtable.ExitNotFound, "not_found", "", "run crabmem hub update, then crabmem hub search", "no resource %q", name)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, r := range found {
		names = append(names, r.Source+"/"+r.Name)
	}
	return nil, refusal(errtable.ExitConflict, "ambiguous", "", "use one of these names", "more than one source has %q: %s", name, strings.Join(names, ", "))
}

// Fetch returns the files of a resource. The caller holds the lock of [Locked].
func (h *Hub) Fetch(ctx context.Context, r *Resource) (*Package, error) {
	p := &Package{Resource: *r, Ref: r.Commit}
	from := h.copyOf(config.HubSource{Name: r.Source, Repo: r.Repo})
	if p.FilesRepo = cmp.Or(r.From.GitHub, r.Repo); r.From.GitHub != "" {
		var err error
		if from, p.Ref, err = h.fetch(ctx, r.From.GitHub, r.From.Ref); err != nil {
			return nil, err
		}
		defer removeAll(h.FS, from.dir) //nolint:errcheck // the next fetch removes it, too
	}
	list, err := from.list(ctx, p.Ref, "-r", cmp.Or(r.From.Path, "."))
	for i, e := range list {
		rel, ok := strings.CutPrefix(e.path, r.From.Path+"/")
		if r.From.Path == "" {
			rel = e.path
		} else if !ok {
			rel = path.Base(e.path) // the path names a file
		}
		list[i].path = rel
	}
	if err == nil {
		err = checkEntries(list)
	}
	if err != nil {
		return nil, refusal(errtable.ExitFailure, "invalid", "", "tell the author of the resource", "fetch %s of %s: %v", r.Name, p.FilesRepo, err)
	}
	texts, err := from.read(ctx, list)
	for i, text := range texts {
		p.Files = append(p.Files, File{Path: list[i].path, Exec: list[i].mode == "100755", Data: text})
	}
	return p, err
}
