// Package hub installs resources of git repositories: skills, agents, MCP servers, and
// workspaces. See FORMAT.md for the files and each fault.
//
// A repository is input of others. The package reads it with git from a bare copy, without
// a checkout, and runs no file of it.
package hub

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/lazyregexp"
)

// The types of resources.
const (
	Skill     = "skill"
	Agent     = "agent"
	MCP       = "mcp"
	Workspace = "workspace"
)

// dirs are the directories of a repository and, except that of workspaces, of installed
// resources, by type.
var dirs = map[string]string{Skill: "skills", Agent: "agents", MCP: "mcp", Workspace: "workspaces"}

// A Manifest describes a resource.
type Manifest struct {
	Name        string   `toml:"name" json:"name"`
	Description string   `toml:"description" json:"description"`
	Version     string   `toml:"version" json:"version"` // compared for equality only
	Type        string   `toml:"resource_type" json:"resource_type" op:"words=skill|agent|mcp|workspace"`
	Author      string   `toml:"author" json:"author"`
	Tags        []string `toml:"tags" json:"tags"`
	From        From     `toml:"source" json:"from"`
}

// From is the place of the files of a resource.
type From struct {
	GitHub string `toml:"github" json:"github,omitempty"` // empty: the repository of the manifest
	Path   string `toml:"path" json:"path,omitempty"`
	Ref    string `toml:"ref" json:"ref,omitempty"` // branch, tag, or commit; empty: the default branch
}

// A Resource is a manifest of a source.
type Resource struct {
	Manifest
	Source string `json:"source"`
	Repo   string `json:"repo"`   // of the manifest
	Commit string `json:"commit"` // of the manifest
}

var gitRef = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}$`)

// parse reads the manifest of a resource with a source, repository, and commit. file is its
// path in the repository.
func (r *Resource) parse(file string, text []byte) error {
	at := r.Source + ": " + file
	if err := config.DecodeTOML(at, text, &r.Manifest); err != nil {
		return err
	}
	name := strings.TrimSuffix(path.Base(file), ".toml")
	for _, c := range []struct {
		key, value string
		least, max int
	}{{"description", r.Description, 1, 1024}, {"version", r.Version, 1, 64}, {"author", r.Author, 0, 256}, {"tags", strings.Join(r.Tags, ""), 0, 1024}} {
		if n := utf8.RuneCountInString(c.value); n < c.least || n > c.max || strings.ContainsFunc(c.value, isHidden) {
			return fmt.Errorf("%s: %s: want %d to %d characters on one line", at, c.key, c.least, c.max)
		}
	}
	switch isFile := strings.HasPrefix(r.Repo, "file:"); {
	case r.Name != name:
		return fmt.Errorf("%s: name: want %q, as the file", at, name)
	case dirs[r.Type] != path.Dir(file):
		return fmt.Errorf("%s: resource_type: it does not belong to %s/", at, path.Dir(file))
	case r.From.Ref != "" && (!gitRef().MatchString(r.From.Ref) || strings.Contains(r.From.Ref, "..")):
		return fmt.Errorf("%s: source.ref: want a branch, a tag, or a commit", at)
	case r.From.GitHub == "" && r.From.Ref != "":
		return fmt.Errorf("%s: source.ref: it needs source.github", at)
	case r.From.GitHub != "" && (config.CheckHubRepo(r.From.GitHub) != nil || strings.HasPrefix(r.From.GitHub, "file:") && !isFile):
		return fmt.Errorf("%s: source.github: want OWNER/REPO", at)
	}
	if r.From.Path != "" {
		if err := checkPath(r.From.Path); err != nil {
			return fmt.Errorf("%s: source.path: %w", at, err)
		}
	} else if r.From.GitHub == "" {
		r.From.Path = path.Join(dirs[r.Type], r.Name)
	}
	r.Tags = append([]string{}, r.Tags...) // [] in JSON
	return nil
}

// rank orders the results of a search: name, tag, part of the name, others. It is -1 for no match.
func (r *Resource) rank(query string) int {
	contains := func(text string) bool { return strings.Contains(strings.ToLower(text), query) }
	switch {
	case r.Name == query:
		return 0
	case slices.ContainsFunc(r.Tags, func(t string) bool { return strings.ToLower(t) == query }):
		return 1
	case contains(r.Name):
		return 2
	case contains(r.Description), contains(r.Author), slices.ContainsFunc(r.Tags, contains):
		return 3
	}
	return -1
}

// isHidden reports whether a rune is invisible or ends a line.
func isHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// refusal returns the error of input that a command refuses.
func refusal(exit int, kind, where, fix, format string, args ...any) error {
	return &errtable.Error{Kind: kind, Exit: exit, Path: where, Message: fmt.Sprintf(format, args...), Fix: fix}
}
