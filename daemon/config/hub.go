package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/lazyregexp"
)

// HubSource is an item of [[hub.sources]]: a git repository with resources to install.
type HubSource struct {
	Name string `json:"name"`
	Repo string `json:"repo"` // OWNER/REPO of GitHub, or file:///PATH
}

const maxSources = 64

var (
	hubName = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	hubRepo = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)
)

// CheckHubName returns why the name of a source, or of a resource of one, is invalid.
func CheckHubName(name string) error {
	if len(name) > 64 || !hubName().MatchString(name) {
		return errors.New("want lowercase letters, digits, and single hyphens between them, at most 64 characters")
	}
	return nil
}

// CheckHubRepo returns why a repository is invalid.
func CheckHubRepo(repo string) error {
	local, isLocal := strings.CutPrefix(repo, "file:///")
	switch {
	case isLocal && local != "" && len(local) < 4096 && strings.IndexFunc(local, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0:
	case hubRepo().MatchString(repo) && !strings.HasSuffix(repo, ".git"):
	default:
		return errors.New("want OWNER/REPO of GitHub, or file:///PATH")
	}
	return nil
}

// readHub reads [[hub.sources]].
func (c *Config) readHub(s *section, v any) {
	list, ok := v.([]any)
	if !ok || len(list) > maxSources {
		s.add("sources", "want tables [[hub.sources]] with name and repo, at most %d", maxSources)
		return
	}
	for i, item := range list {
		key := fmt.Sprintf("sources\x00%d", i)
		at := place{s.f, s.src.line(s.path + "\x00" + key)}
		t, _ := item.(tree)
		name, hasName := t["name"].(string)
		repo, hasRepo := t["repo"].(string)
		if !hasName || !hasRepo || len(t) != 2 {
			at.add("hub.sources: item %d: want only name and repo, which are strings", i+1)
			continue
		}
		if err := CheckHubName(name); err != nil {
			at.add("hub.sources: name '%s': %v", short(name), err)
		}
		if err := CheckHubRepo(repo); err != nil {
			at.add("hub.sources: repo '%s': %v", short(repo), err)
		}
		if slices.ContainsFunc(c.HubSources, func(o HubSource) bool { return o.Name == name }) {
			at.add("hub.sources: two sources have the name '%s'", short(name))
		}
		c.HubSources = append(c.HubSources, HubSource{name, repo})
	}
}
