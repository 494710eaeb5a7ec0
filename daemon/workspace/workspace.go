// Package workspace finds and reads workspaces: directories with agents, skills, MCP
// servers, and cron entries of a project. See FORMAT.md for the files and each fault.
//
// The files of a workspace are code of others. The caller uses them only if [Trusts.State]
// is Trusted.
package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
)

// File is the main file of a workspace, and OldFile its other name.
const (
	File    = "crabmem.toml"
	OldFile = "walrus.toml"

	// Agent is the agent of requests without one, if the workspace has an agent of this name.
	Agent = "default"

	// Ignored is the directory of the workspace's state, without the files below it.
	Ignored = "data"
)

const (
	maxParents = 64       // directories to look in
	maxFile    = 64 << 10 // bytes of a TOML file
	maxParts   = 300      // files of agents/, mcp/, and cron/
	maxSkill   = 1 << 20  // bytes of a file below skills/, or of one that a command names
	maxFiles   = 1000     // files that the digest covers
	maxBytes   = 8 << 20  // of these files
	maxDepth   = 10       // directories below skills/
)

// Managed is the directory of the agents, servers, and skills that crabmem hub installed.
const Managed = ".crabmem/managed"

// kinds are the directories of TOML files, and their kinds in package config. Of two files with
// a name, the later one counts. The main file is after the managed ones: its tables count, too.
var (
	managedKinds = []kind{{Managed + "/agents", "agents"}, {Managed + "/mcp", "mcps"}}
	ownKinds     = []kind{{"agents", "agents"}, {"mcp", "mcps"}, {"cron", "cron"}}
)

type kind struct{ dir, kind string }

// A Workspace is a valid workspace.
type Workspace struct {
	Root   string // with links resolved
	File   string // name of the main file
	Digest string // of all files that take effect, in hex
	Skills []string
	*config.Workspace
}

// Store returns the path of the store of the workspace.
func (w *Workspace) Store() string { return filepath.Join(w.Root, Ignored, "memory.db") }

// Find returns the main file of the nearest workspace at or above dir, or "". A file of
// another user, and one in the home, does not count.
func Find(fsys vfs.FS, dir, home string) string {
	dir, err := fsys.Resolve(dir)
	if err != nil || !filepath.IsAbs(dir) {
		return ""
	}
	if real, err := fsys.Resolve(home); err == nil {
		home = real
	}
	for range maxParents {
		for _, name := range []string{File, OldFile} {
			file := filepath.Join(dir, name)
			if fi, err := fsys.Lstat(file); err == nil && dir != home && isOwn(fsys, dir, fi) {
				return file
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// isOwn reports whether this user owns a file and its directory.
func isOwn(fsys vfs.FS, dir string, file fs.FileInfo) bool {
	of, err := fsys.Lstat(dir)
	if err != nil {
		return false
	}
	for _, fi := range []fs.FileInfo{of, file} {
		if uid, known := vfs.Owner(fi); known && uid != os.Getuid() {
			return false
		}
	}
	return true
}

// Load reads the workspace of a main file. Its errors name the file, and a fix.
func Load(fsys vfs.FS, file string) (*Workspace, error) {
	w := &Workspace{Root: filepath.Dir(file), File: filepath.Base(file)}
	tree, err := fsys.Root(w.Root)
	if err != nil {
		return nil, broken(file, err)
	}
	defer tree.Close() //nolint:errcheck // a directory that was only read
	r := reader{tree: tree, root: w.Root, sum: sha256.New()}
	main := config.WorkspaceFile{Path: file}
	if main.Text, err = r.read(w.File, maxFile); err != nil {
		return nil, err
	}
	if err := r.checkManaged(); err != nil {
		return nil, err
	}
	files, err := r.tables(nil, managedKinds)
	if err != nil {
		return nil, err
	}
	if files, err = r.tables(append(files, main), ownKinds); err != nil {
		return nil, err
	}
	for _, dir := range []string{Managed + "/skills", "skills"} {
		if err := r.skills(dir, dir, 0, &w.Skills); err != nil {
			return nil, err
		}
	}
	slices.Sort(w.Skills)
	w.Skills = slices.Compact(w.Skills)
	if w.Workspace, err = config.ReadWorkspace(fsys, w.Root, files); err != nil {
		return nil, err
	}
	if err := r.programs(w); err != nil {
		return nil, err
	}
	w.Digest = hex.EncodeToString(r.sum.Sum(nil))
	return w, r.checkData(w)
}

// broken returns err as the error of a path in a workspace.
func broken(path string, err error) error {
	if big, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		err = fmt.Errorf("%d bytes, more than the limit of %d", big.Size, big.Max)
	} else if errors.Is(err, vfs.ErrNotRegular) {
		err = errors.New("not a regular file (links are not followed)")
	} else if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return &errtable.Error{Kind: "config", Exit: errtable.ExitUsage, Path: path, Message: "read workspace: " + path + ": " + err.Error(),
		Fix: "correct or remove " + errtable.ShellWord(path), Err: err}
}
