package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// Change is the result of [Set].
type Change struct {
	Config  *Config // the configuration of the home; nil: Problems keep it from being used
	Written bool    // false: the file did not change
	// Problems lists the problems that the change did not introduce.
	Problems Problems
}

// Pair is a key and its value. Key is a path of names with dots, and Value is JSON;
// null removes the key.
type Pair struct{ Key, Value string }

// Set writes a configuration: JSON of the reference's DaemonConfig, and optionally
// the additional keys. If the change introduces no problem, Set replaces config.toml
// atomically; otherwise it writes nothing. So a change can repair one of several
// problems. Set changes only the lines of changed keys; comments and the order of the
// keys remain.
//
// Set keeps the file's value if [Get] returned the same value, also for each
// masked argument of a server. It keeps secrets that are omitted or empty,
// additional keys that are omitted, and omitted tables (provider, mcps, agents,
// env, system, and those in it). It removes a provider, server, agent, or variable
// that its table omits, and resets an omitted key of the reference to its default.
// null removes the key.
//
// The caller holds the lock of [Locked].
func Set(fsys vfs.FS, home string, js []byte, getenv func(string) string) (*Change, error) {
	sent, err := decodeTable(js)
	if err != nil {
		return nil, fmt.Errorf("invalid DaemonConfig JSON: %w", err)
	}
	return change(fsys, home, getenv, func(tree) (tree, error) { return sent, nil })
}

// SetKeys sets keys, as [Set] does, in the present configuration. The caller holds the
// lock of [Locked].
func SetKeys(fsys vfs.FS, home string, pairs []Pair, getenv func(string) string) (*Change, error) {
	return change(fsys, home, getenv, func(shown tree) (tree, error) {
		for _, p := range pairs {
			v, err := decodeJSON([]byte(p.Value))
			if err != nil {
				return nil, fmt.Errorf("invalid JSON of %s: %w", short(p.Key), err)
			}
			if err := put(shown, p.Key, v); err != nil {
				return nil, err
			}
		}
		return shown, nil
	})
}

// put sets a value in a tree of tables. It creates missing tables.
func put(root tree, path string, v any) error {
	keys := strings.Split(path, ".")
	last := len(keys) - 1
	for i, key := range keys[:last] {
		next, there := root[key]
		table, ok := next.(tree)
		if there && !ok {
			e := errtable.Invalidf("%s is not a table and has no key '%s'", short(strings.Join(keys[:i+1], ".")), short(keys[i+1]))
			e.Exit, e.Fix = errtable.ExitUsage, "crabmem config get"
			return e
		}
		if !there {
			table = make(tree)
			root[key] = table
		}
		root = table
	}
	root[keys[last]] = v
	return nil
}

// change writes the configuration that next returns for the one that a client sees.
func change(fsys vfs.FS, home string, getenv func(string) string, next func(shown tree) (tree, error)) (*Change, error) {
	l, err := open(fsys, home, getenv)
	if err != nil {
		return nil, err
	}
	defer l.close()
	d, old, err := l.stored()
	if err != nil {
		return nil, err
	}
	stored := d.tree
	sent, err := next(l.show(stored, old))
	if err != nil {
		return nil, err
	}
	merged := merge("", stored, l.show(stored, old), sent)
	text := old
	written := !reflect.DeepEqual(merged, stored)
	if written {
		if text, err = editTOML(old, merged); err != nil {
			return nil, fmt.Errorf("invalid DaemonConfig JSON: %w", err)
		}
	}
	done, err := l.check(old, text)
	if ps, ok := err.(Problems); ok {
		return nil, l.unplaced(ps)
	}
	if done.Written = written; !written {
		return done, nil
	}
	return done, l.write(text)
}

// check loads the configuration of a new text of config.toml. The problems that the old
// text does not have are an error.
func (l *loader) check(old, text []byte) (*Change, error) {
	c, err := l.load(text)
	if err == nil {
		return &Change{Config: c, Problems: c.Broken}, nil
	}
	before := &loader{fsys: l.fsys, home: l.home, tree: l.tree, getenv: l.getenv}
	_, _ = before.load(old)
	known := func(p Problem) bool {
		return slices.ContainsFunc(before.found, func(b Problem) bool { return b.Path == p.Path && b.Message == p.Message })
	}
	if added := slices.DeleteFunc(slices.Clone(l.found), known); len(added) > 0 {
		added.sort()
		return nil, added
	}
	all, _ := err.(Problems)
	return &Change{Problems: all}, nil
}

// ErrChanged is returned by [Replace] if config.toml changed since the caller read
// it.
var ErrChanged = errors.New("config.toml changed")

// Replace replaces the text of config.toml atomically. It returns [ErrChanged] if
// the present text is not old; old is nil for a missing file. If text has problems that
// old does not have, Replace returns these [Problems] and writes nothing. The caller holds
// the lock of [Locked].
func Replace(fsys vfs.FS, home string, old, text []byte, getenv func(string) string) (*Change, error) {
	l, err := open(fsys, home, getenv)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if now, err := l.read(File, maxFile); err != nil || !bytes.Equal(now, old) || (now == nil) != (old == nil) {
		return nil, cmp.Or(err, ErrChanged)
	}
	done, err := l.check(old, text)
	if err != nil {
		return nil, err
	}
	done.Written = true
	return done, l.write(text)
}

// Locked calls change while it holds the lock of the configuration of a home, for which it
// waits up to wait. A change that reads the configuration before, outside change, could
// undo the change of another process.
func Locked(fsys vfs.FS, home string, wait time.Duration, change func() error) error {
	return vfs.WithLock(fsys, filepath.Join(home, "run", "config.lock"), wait, change)
}

// write replaces config.toml.
func (l *loader) write(text []byte) error {
	name := filepath.Join(l.home, File)
	err := vfs.MkdirAll(l.fsys, l.home, 0o700)
	if err == nil {
		err = vfs.WriteFile(l.fsys, name, 0o600, text)
	}
	if err != nil {
		return fmt.Errorf("failed to write %s: %w", name, err)
	}
	return nil
}

// unplaced removes the lines from the problems of a text that is not in a file.
func (l *loader) unplaced(ps Problems) Problems {
	for i := range ps {
		if ps[i].Path == filepath.Join(l.home, File) {
			ps[i].Line = 0
		}
	}
	ps.sort()
	return ps
}
