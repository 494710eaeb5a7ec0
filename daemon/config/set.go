package config

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"

	"crabmem/crmem/vfs"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Change is the result of [Set].
type Change struct {
	Config       *Config // the configuration of the home
	Written      bool    // false: the file did not change
	CommentsLost bool    // Set removed the file's comments
}

// Set writes a configuration: JSON of the reference's DaemonConfig, and optionally
// the additional keys. If the result is valid, Set replaces config.toml
// atomically; otherwise it writes nothing.
//
// Set keeps the file's value if [Get] returned the same value, also for each
// masked argument of a server. It keeps secrets that are omitted or empty,
// additional keys that are omitted, and omitted tables (provider, mcps, agents,
// env, system, and those in it). It removes a provider, server, agent, or variable
// that its table omits, and resets an omitted key of the reference to its default.
// null removes the key.
//
// Calls for one home must not overlap.
func Set(fsys vfs.FS, home string, js []byte, getenv func(string) string) (*Change, error) {
	sent, err := decodeJSON(js)
	if err != nil {
		return nil, fmt.Errorf("invalid DaemonConfig JSON: %w", err)
	}
	l, err := open(fsys, home, getenv)
	if err != nil {
		return nil, err
	}
	defer l.close()
	stored, old, err := l.stored()
	if err != nil {
		return nil, err
	}
	next := merge("", stored, l.show(stored, old), sent)
	text := old
	written := !reflect.DeepEqual(next, stored)
	if written {
		if text, err = encodeTOML(next); err != nil {
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
	name := filepath.Join(l.home, File)
	if written {
		if err := write(fsys, l.home, name, text); err != nil {
			return nil, fmt.Errorf("failed to write %s: %w", name, err)
		}
	}
	return &Change{Config: c, Written: written, CommentsLost: written && hasComment(old)}, nil
}

func write(fsys vfs.FS, home, name string, text []byte) error {
	if err := vfs.MkdirAll(fsys, home, 0o700); err != nil {
		return err
	}
	return vfs.Replace(fsys, name, 0o600, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// unplaced removes the lines from the problems of a text that is not in a file.
func (l *loader) unplaced(ps Problems) Problems {
	ps = slices.Clone(ps)
	for i := range ps {
		if ps[i].Path == filepath.Join(l.home, File) {
			ps[i].Line = 0
		}
	}
	return ps
}

// encodeTOML encodes t. It returns an error if the text does not decode to t.
func encodeTOML(t tree) ([]byte, error) {
	text, err := toml.Marshal(t)
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s would have %d bytes, more than the limit of %d", File, len(text), maxFile)
	}
	back, err := rawTOML(text)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(back, t) {
		return nil, fmt.Errorf("TOML cannot represent the value")
	}
	return text, nil
}

// hasComment reports whether valid TOML contains a comment.
func hasComment(text []byte) bool {
	p := unstable.Parser{KeepComments: true}
	p.Reset(bytes.TrimPrefix(text, []byte("\ufeff")))
	for p.NextExpression() {
		if commented(p.Expression()) {
			return true
		}
	}
	return false
}

// commented reports whether n, its children, or the nodes after it contain a
// comment.
func commented(n *unstable.Node) bool {
	for ; n.Valid(); n = n.Next() {
		if n.Kind == unstable.Comment || commented(n.Child()) {
			return true
		}
	}
	return false
}
