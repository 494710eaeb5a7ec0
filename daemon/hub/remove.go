package hub

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// maxKept limits the files that changed reads.
const maxKept = 4 * maxFiles

// files returns the sums of the files of a unit by path. A link and the like has the sum "".
func (o *op) files(name string, sums map[string]string) error {
	fi, err := o.tree.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(sums) > maxKept:
		return refusal(errtable.ExitFailure, "invalid", filepath.Join(o.Dir, name), "remove some", "read %s: more than %d files", name, maxKept)
	case fi.IsDir():
		list, err := o.tree.ReadDir(name)
		for _, e := range list {
			err = errors.Join(err, o.files(path.Join(name, e.Name()), sums))
		}
		return err
	}
	sums[name] = ""
	text, err := vfs.ReadFile(o.tree, name, maxFile)
	if err == nil {
		sum := sha256.Sum256(text)
		sums[name] = hex.EncodeToString(sum[:])
	} else if _, big := errors.AsType[*vfs.TooLargeError](err); big || errors.Is(err, vfs.ErrNotRegular) {
		err = nil
	}
	return err
}

// changed returns the paths of the unit's files that differ from the entry, are missing, or are not in it.
func (o *op) changed(e *Installed) (changed []string, err error) {
	want, err := e.sums()
	if err != nil {
		return nil, err
	}
	got := make(map[string]string)
	if err := o.files(path.Join(managed, unit(e.Type, e.Name)), got); err != nil {
		return nil, err
	}
	for name := range want {
		if sum, ok := got[name]; !ok || sum != want[name] {
			changed = append(changed, name)
		}
		delete(got, name)
	}
	changed = append(changed, slices.Collect(maps.Keys(got))...)
	slices.Sort(changed)
	return changed, nil
}

// Changed returns the paths of the files of an installed resource that differ from the lock.
func (r *Root) Changed(e Installed) (changed []string, err error) {
	if e.Type == Workspace {
		return nil, nil // its files are the user's own
	}
	err = r.with(func(o *op) error { changed, err = o.changed(&e); return err })
	return changed, err
}

// Remove removes the files of a resource, and then its entry. Changed files, and files that the
// entry does not list, stay: kept are the paths.
func (r *Root) Remove(name string) (kept []string, err error) {
	err = r.with(func(o *op) error {
		if err := o.recover(); err != nil {
			return err
		}
		i := o.lock.find(name)
		if i < 0 {
			return refusal(errtable.ExitNotFound, "not_found", o.Dir, "run crabmem hub list", "remove %s: it is not installed in %s", name, o.Dir)
		}
		e := o.lock.Resources[i]
		if e.Type == Workspace {
			return refusal(errtable.ExitUsage, "usage", o.Dir, "remove the directory if you do not need it", "remove %s: the files of a workspace are your own", name)
		}
		var err error
		if kept, err = o.removeUnchanged(&e); err != nil {
			return err
		}
		text, err := (&lock{slices.Delete(o.lock.Resources, i, i+1)}).text()
		if err == nil {
			err = vfs.WriteFile(o.tree, LockFile, o.perm, text)
		}
		return err
	})
	return kept, err
}

// removeUnchanged removes the unchanged files of a resource, and empty directories. It returns
// the paths of the files that stay.
func (o *op) removeUnchanged(e *Installed) (kept []string, err error) {
	changed, err := o.changed(e)
	if err != nil {
		return nil, err
	}
	sums, err := e.sums()
	if err != nil {
		return nil, err
	}
	top := path.Join(managed, unit(e.Type, e.Name))
	list := slices.Sorted(maps.Keys(sums))
	// SKILL.md first: without it, the rest is no skill.
	slices.SortStableFunc(list, func(a, b string) int {
		return cmp.Compare(strings.TrimPrefix(a, top+"/SKILL.md"), strings.TrimPrefix(b, top+"/SKILL.md"))
	})
	for _, name := range list {
		if !slices.Contains(changed, name) {
			if err := o.remove(name); err != nil {
				return nil, err
			}
		}
		for dir := path.Dir(name); e.Type == Skill && len(dir) >= len(top); dir = path.Dir(dir) {
			if list, err := o.tree.ReadDir(dir); err != nil || len(list) > 0 {
				break
			}
			if err := o.remove(dir); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range changed {
		if _, err := o.tree.Lstat(name); err == nil {
			kept = append(kept, name)
		}
	}
	return kept, nil
}

// remove removes a file or an empty directory durably.
func (o *op) remove(name string) error {
	err := o.tree.Remove(name)
	if err == nil {
		err = o.tree.SyncDir(path.Dir(name))
	}
	return err
}
