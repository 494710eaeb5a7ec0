package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// How selects what Install may replace.
type How int

// The ways to install.
const (
	New     How = iota // no file
	Upgrade            // the unchanged files of the resource
	Force              // all files in the place of the resource
)

// A Root is a workspace or a home with installed resources. Its methods that change files need
// the lock of [Locked]. They first finish or undo a change that a crash ended.
type Root struct {
	FS     vfs.FS
	Dir    string
	IsHome bool
}

// An op is one use of a root.
type op struct {
	*Root
	tree vfs.RootDir
	lock *lock
	perm fs.FileMode // of files
}

// with calls use with the open root.
func (r *Root) with(use func(*op) error) error {
	tree, err := r.FS.Root(r.Dir)
	if err != nil {
		return err
	}
	o := &op{Root: r, tree: tree, perm: 0o644}
	if r.IsHome {
		o.perm = 0o600
	}
	err = o.checkDirs()
	if err == nil {
		o.lock, err = readLock(tree, r.Dir)
	}
	if err == nil {
		err = use(o)
	}
	return errors.Join(err, tree.Close())
}

// checkDirs refuses a link in the place of a directory, which may lead to the user's own files.
func (o *op) checkDirs() error {
	for _, dir := range []string{path.Dir(managed), managed, staging, managed + "/skills", managed + "/agents", managed + "/mcp"} {
		if fi, err := o.tree.Lstat(dir); err == nil && !fi.IsDir() {
			where := filepath.Join(o.Dir, dir)
			return refusal(errtable.ExitFailure, "invalid", where, "remove "+errtable.ShellWord(where), "open %s: not a directory (links are not followed)", where)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// dirPerm returns the mode of directories.
func (o *op) dirPerm() fs.FileMode { return o.perm | o.perm&0o444>>2 }

// Installed returns the installed resources.
func (r *Root) Installed() (list []Installed, err error) {
	err = r.with(func(o *op) error { list = o.lock.Resources; return nil })
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return list, err
}

// Install installs a package that Check accepted. An error leaves the old state or, with the
// next change of the root, becomes the old or the new state.
func (r *Root) Install(p *Package, how How) error {
	if p.Type == Workspace {
		return r.installWorkspace(p)
	}
	if r.IsHome && p.Type != Skill {
		return refusal(errtable.ExitUsage, "usage", r.Dir, "run crabmem init NAME, then install in its directory", "install %s: agents and servers of a hub are installed into a workspace", p.Name)
	}
	return r.with(func(o *op) error {
		if err := o.recover(); err != nil {
			return err
		}
		exists, same, err := o.permits(p, how)
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(slices.Clone(o.lock.Resources), func(e Installed) bool { return e.Name == p.Name })
		text, err := (&lock{append(others, o.entry(p))}).text()
		if err != nil {
			return err
		}
		if same { // a crash kept the files, and lost the lock
			return vfs.WriteFile(o.tree, LockFile, o.perm, text)
		}
		of := unit(p.Type, p.Name)
		err = inOrder(func() error { return o.stage(path.Join(staging, "new", of), p) },
			func() error { return vfs.WriteFile(o.tree, path.Join(staging, LockFile), o.perm, text) },
			func() error { return o.swap(of, exists) })
		if err != nil {
			return errors.Join(err, o.recover())
		}
		return removeAll(o.tree, staging)
	})
}

// permits returns an error if Install must not write a package. same reports that its files are
// there already, and only the lock lacks them.
func (o *op) permits(p *Package, how How) (exists, same bool, err error) {
	i, top := o.lock.find(p.Name), path.Join(managed, unit(p.Type, p.Name))
	where := filepath.Join(o.Dir, top)
	_, err = o.tree.Lstat(top)
	exists = err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exists, false, err
	}
	var old Installed
	if i >= 0 {
		old = o.lock.Resources[i]
	}
	switch conflict := func(fix, format string, args ...any) error {
		return refusal(errtable.ExitConflict, "exists", where, fix, "install "+p.Name+": "+format, args...)
	}; {
	case i >= 0 && old.Type != p.Type:
		return exists, false, conflict("run crabmem hub remove "+p.Name, "a resource of the type %s has this name", old.Type)
	case how == Force:
		return exists, false, nil
	case i < 0 && !exists:
		return exists, false, nil
	case i < 0:
		e := o.entry(p)
		if changed, err := o.changed(&e); err != nil || len(changed) == 0 {
			return exists, err == nil, err
		}
		return exists, false, conflict("move it, or use --force", "%s exists, and is not in %s", where, LockFile)
	case how == New || old.Source != p.Source:
		return exists, false, conflict("run crabmem hub upgrade "+p.Name+", or use --force", "it is installed from %s", old.Source)
	}
	changed, err := o.changed(&old)
	if err == nil && len(changed) > 0 {
		err = refusal(errtable.ExitConflict, "changed", where, "keep a copy, then run crabmem hub install --force "+p.Name,
			"upgrade %s: files differ from %s: %s", p.Name, LockFile, strings.Join(changed, ", "))
	}
	return exists, false, err
}

// entry returns the entry of a package.
func (o *op) entry(p *Package) Installed {
	e := Installed{Name: p.Name, Version: p.Version, Source: p.Source, Repo: p.FilesRepo, Ref: p.Ref, Type: p.Type, Files: []string{}}
	for _, f := range p.Files {
		name := f.Path
		switch p.Type {
		case Skill:
			name = path.Join(managed, unit(p.Type, p.Name), name)
		case Agent, MCP:
			name = path.Join(managed, unit(p.Type, p.Name))
		}
		sum := sha256.Sum256(f.Data)
		e.Files = append(e.Files, hex.EncodeToString(sum[:])+"  "+name)
	}
	return e
}

// stage writes the files of a package to dir, or a single file of another type than a skill.
func (o *op) stage(dir string, p *Package) error {
	for _, f := range p.Files {
		name, perm := path.Join(dir, f.Path), o.perm
		if p.Type == Agent || p.Type == MCP {
			name = dir
		}
		if f.Exec {
			perm = o.dirPerm()
		}
		if err := vfs.MkdirAll(o.tree, path.Dir(name), o.dirPerm()); err != nil {
			return err
		}
		if err := vfs.WriteFile(o.tree, name, perm, f.Data); err != nil {
			return err
		}
	}
	return nil
}

// move renames a file or directory, and makes both names durable.
func (o *op) move(from, to string) error {
	return inOrder(func() error { return vfs.MkdirAll(o.tree, path.Dir(to), o.dirPerm()) },
		func() error { return o.tree.Rename(from, to) },
		func() error { return o.tree.SyncDir(path.Dir(to)) },
		func() error { return o.tree.SyncDir(path.Dir(from)) })
}

// swap puts the staged unit in its place, and then the staged lock.
func (o *op) swap(of string, exists bool) error {
	if exists {
		if err := o.move(path.Join(managed, of), path.Join(staging, "old", of)); err != nil {
			return err
		}
	}
	return inOrder(func() error { return o.move(path.Join(staging, "new", of), path.Join(managed, of)) },
		func() error { return o.move(path.Join(staging, LockFile), LockFile) })
}

// recover finishes a change whose old unit is moved, or whose new unit is in its place, and
// undoes any other.
func (o *op) recover() error {
	_, err := o.tree.Lstat(path.Join(staging, LockFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		of, err := o.staged()
		if err != nil {
			return err
		}
		_, old := o.tree.Lstat(path.Join(staging, "old", of))
		_, taken := o.tree.Lstat(path.Join(managed, of))
		switch {
		case of == "":
			err = o.move(path.Join(staging, LockFile), LockFile)
		case old == nil && errors.Is(taken, fs.ErrNotExist):
			err = o.swap(of, false)
		default: // without the lock first, the removal would look like the case above
			if err = o.tree.Remove(path.Join(staging, LockFile)); err == nil {
				err = o.tree.SyncDir(staging)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := removeAll(o.tree, staging); err != nil {
		return err
	}
	o.lock, err = readLock(o.tree, o.Dir)
	return err
}

// staged returns the new unit in the staging directory, or "".
func (o *op) staged() (string, error) {
	for _, typ := range []string{Skill, Agent, MCP} {
		list, err := o.tree.ReadDir(path.Join(staging, "new", dirs[typ]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if len(list) > 0 {
			return path.Join(dirs[typ], list[0].Name()), nil
		}
	}
	return "", nil
}

// installWorkspace makes the directory of a workspace in the root. The rename commits it with its
// lock.
func (r *Root) installWorkspace(p *Package) error {
	return r.with(func(o *op) error {
		where, temp := filepath.Join(o.Dir, p.Name), "."+p.Name+".new"
		if _, err := o.tree.Lstat(p.Name); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(refusal(errtable.ExitConflict, "exists", where, "move it, or use another directory", "install %s: %s exists", p.Name, where), err)
		}
		text, err := (&lock{[]Installed{o.entry(p)}}).text()
		err = inOrder(func() error { return err },
			func() error { return removeAll(o.tree, temp) },
			func() error { return o.stage(temp, p) },
			func() error { return vfs.WriteFile(o.tree, path.Join(temp, LockFile), o.perm, text) },
			func() error { return o.move(temp, p.Name) })
		if err != nil {
			err = fmt.Errorf("install %s: %w", p.Name, errors.Join(err, removeAll(o.tree, temp)))
		}
		return err
	})
}
