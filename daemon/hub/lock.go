package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"

	"github.com/pelletier/go-toml/v2"
)

// LockFile is the file with the installed resources of a workspace or a home.
const LockFile = "hub.lock"

const (
	maxLock      = 1 << 20 // bytes
	maxInstalled = 1000
)

// Installed is an installed resource.
type Installed struct {
	Name    string   `toml:"name" json:"name"`
	Version string   `toml:"version" json:"version"`
	Source  string   `toml:"source_name" json:"source_name"`
	Repo    string   `toml:"source_repo" json:"source_repo"` // of the files
	Ref     string   `toml:"resolved_ref" json:"resolved_ref"`
	Type    string   `toml:"resource_type" json:"resource_type" op:"words=skill|agent|mcp|workspace"`
	Files   []string `toml:"installed_files" json:"installed_files"` // SHA-256 in hex, two spaces, path
}

// A lock is the text of a LockFile.
type lock struct {
	Resources []Installed `toml:"resources"`
}

// find returns the index of a resource, or -1.
func (l *lock) find(name string) int {
	return slices.IndexFunc(l.Resources, func(e Installed) bool { return e.Name == name })
}

// managed is the directory of installed resources, and staging that of changes.
const (
	managed = ".crabmem/managed"
	staging = ".crabmem/staging"
)

// unit returns the file or directory of a resource, relative to managed.
func unit(typ, name string) string {
	if typ != Skill {
		name += ".toml"
	}
	return dirs[typ] + "/" + name
}

// sums returns the sums of the files by path. The paths are below the unit of the resource: the
// file is input, and Remove removes what it lists.
func (e *Installed) sums() (map[string]string, error) {
	sums := make(map[string]string)
	top := path.Join(managed, unit(e.Type, e.Name))
	for _, line := range e.Files {
		sum, name, ok := strings.Cut(line, "  ")
		rel := strings.TrimPrefix(name, top+"/")
		switch b, err := hex.DecodeString(sum); {
		case !ok, err != nil, len(b) != sha256.Size:
			return nil, fmt.Errorf("%s: want a SHA-256 sum, two spaces, and a path: %q", e.Name, line)
		case e.Type == Workspace:
			rel = name
		case e.Type != Skill && name == top:
			rel = path.Base(top)
		case e.Type != Skill, rel == name:
			return nil, fmt.Errorf("%s: the path is not in %s: %q", e.Name, top, name)
		}
		if err := checkPath(rel); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", e.Name, name, err)
		}
		sums[name] = sum
	}
	return sums, nil
}

// check returns why a lock is invalid.
func (l *lock) check() error {
	if len(l.Resources) > maxInstalled {
		return fmt.Errorf("more than %d resources", maxInstalled)
	}
	for i := range l.Resources {
		e := &l.Resources[i]
		err := config.CheckHubName(e.Name)
		if err == nil && dirs[e.Type] == "" {
			err = fmt.Errorf("%s: resource_type: want skill, agent, mcp, or workspace", e.Name)
		}
		if err == nil && l.find(e.Name) < i {
			err = fmt.Errorf("%s: the name is listed twice", e.Name)
		}
		if err == nil {
			_, err = e.sums()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// text returns the lock as TOML.
func (l *lock) text() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Written by crabmem hub. crabmem hub remove removes the files that it lists.\n\n")
	err := toml.NewEncoder(&b).SetArraysMultiline(true).Encode(l)
	if err == nil && b.Len() > maxLock {
		err = fmt.Errorf("%s would have more than %d bytes", LockFile, maxLock)
	}
	return b.Bytes(), errors.Join(err, l.check())
}

// readLock reads a LockFile. A missing one is empty.
func readLock(tree vfs.Tree, dir string) (*lock, error) {
	file := filepath.Join(dir, LockFile)
	text, err := vfs.ReadFile(tree, LockFile, maxLock)
	l := new(lock)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		if err := config.DecodeTOML(file, text, l); err != nil {
			return nil, err
		}
		err = l.check()
	}
	if err != nil {
		return nil, refusal(errtable.ExitCorrupt, "format", file, "correct the file, or move it", "read %s: %v", file, err)
	}
	return l, nil
}

// Locked calls change while it holds the lock of the hub of a home.
func Locked(fsys vfs.FS, home string, wait time.Duration, change func() error) error {
	return vfs.WithLock(fsys, filepath.Join(home, "run", "hub.lock"), wait, change)
}

// removeAll removes a file, or a directory with all files. A missing one is no error.
func removeAll(tree vfs.Tree, name string) error {
	fi, err := tree.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && fi.IsDir() {
		var list []fs.DirEntry
		list, err = tree.ReadDir(name)
		for _, e := range list {
			err = errors.Join(err, removeAll(tree, name+"/"+e.Name()))
		}
	}
	if err == nil {
		err = tree.Remove(name)
	}
	return err
}

// inOrder calls steps until one fails, and returns its error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
