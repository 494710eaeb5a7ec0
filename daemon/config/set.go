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
	Config  *Config // the configuration of the home
	Written bool    // false: the file did not change
}

// Set writes a configuration: JSON of the reference's DaemonConfig, and optionally
// the additional keys. If the result is valid, Set replaces config.toml
// atomically; otherwise it writes nothing. Set changes only the lines of changed
// keys; comments and the order of the keys remain.
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

// SetKey sets one key, as [Set] does, in the present configuration. key is a path of
// names with dots, and js the JSON of its value; null removes the key. The caller holds
// the lock of [Locked].
func SetKey(fsys vfs.FS, home, key string, js []byte, getenv func(string) string) (*Change, error) {
	v, err := decodeJSON(js)
	if err != nil {
		return nil, fmt.Errorf("invalid JSON of %s: %w", short(key), err)
	}
	return change(fsys, home, getenv, func(shown tree) (tree, error) { return shown, put(shown, key, v) })
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
	stored, old, err := l.stored()
	if err != nil {
		return nil, err
	}
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
	c, err := l.load(text)
	if err != nil {
		if ps, ok := err.(Problems); ok && written {
			err = l.unplaced(ps)
		}
		return nil, err
	}
	if written {
		name := filepath.Join(l.home, File)
		if err := write(fsys, l.home, name, text); err != nil {
			return nil, fmt.Errorf("failed to write %s: %w", name, err)
		}
	}
	return &Change{Config: c, Written: written}, nil
}

// ErrChanged is returned by [Replace] if config.toml changed since the caller read
// it.
var ErrChanged = errors.New("config.toml changed")

// Replace replaces the text of config.toml atomically. It returns [ErrChanged] if
// the present text is not old; old is nil for a missing file. If text is invalid,
// Replace returns its [Problems] and writes nothing. The caller holds the lock of
// [Locked].
func Replace(fsys vfs.FS, home string, old, text []byte, getenv func(string) string) error {
	l, err := open(fsys, home, getenv)
	if err != nil {
		return err
	}
	defer l.close()
	if now, err := l.read(File, maxFile); err != nil || !bytes.Equal(now, old) || (now == nil) != (old == nil) {
		return cmp.Or(err, ErrChanged)
	}
	if _, err := l.load(text); err != nil {
		return err
	}
	name := filepath.Join(l.home, File)
	if err := write(fsys, l.home, name, text); err != nil {
		return fmt.Errorf("failed to write %s: %w", name, err)
	}
	return nil
}

// Locked calls change while it holds the lock of the configuration of a home, for which it
// waits up to wait. A change that reads the configuration before, outside change, could
// undo the change of another process.
func Locked(fsys vfs.FS, home string, wait time.Duration, change func() error) error {
	return vfs.WithLock(fsys, filepath.Join(home, "run", "config.lock"), wait, change)
}

func write(fsys vfs.FS, home, name string, text []byte) error {
	if err := vfs.MkdirAll(fsys, home, 0o700); err != nil {
		return err
	}
	return vfs.WriteFile(fsys, name, 0o600, text)
}

// unplaced removes the lines from the problems of a text that is not in a file.
func (l *loader) unplaced(ps Problems) Problems {
	ps = slices.Clone(ps)
	for i := range ps {
		if ps[i].Path == filepath.Join(l.home, File) {
			ps[i].Line = 0
		}
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line, strings.Compare(a.Message, b.Message))
	})
	return ps
}
