package tree

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"crabmem/crmem"
)

// Exchanged returns the paths of the merge bases of s that contain a page of one of
// the entries: the trees of these bases may have texts of the entries, because of a
// dump or a load. The directories of the trees are not recorded. A damaged base is
// an error, which does not omit the others.
func Exchanged(s *crmem.Store, ids ...uint64) (paths []string, err error) {
	b := bases{s.Options().FS, basesOf(s), s.Identity()}
	if b.dir == "" {
		return nil, nil
	}
	entries, err := b.fsys.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	next := &crmem.Snapshot{NextID: s.NextID()}
	has := func(p basePage) bool { return slices.Contains(ids, p.ID) }
	for _, e := range entries {
		id, ok := strings.CutSuffix(path.Base(e.Name()), ".json")
		if !ok || !validID(id) {
			continue
		}
		base, warning, rerr := b.read(id, next)
		switch {
		case rerr != nil:
			err = errors.Join(err, rerr)
		case warning != "":
			err = errors.Join(err, errors.New(warning))
		case slices.ContainsFunc(base.Pages, has) || slices.ContainsFunc(base.next, has):
			paths = append(paths, b.path(id))
		}
	}
	return paths, err
}
