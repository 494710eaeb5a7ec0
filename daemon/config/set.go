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

// Change is what [Set] did.
type Change struct {
	Config       *Config // what is in the home now
	Written      bool    // false: the file says that already
	CommentsLost bool    // the file had comments, and has none now
}

// Set writes the configuration that a client sends, as JSON of the reference's
// DaemonConfig with the keys of ours that it cares to send. Nothing is written
// unless the result is valid, and then in one replacement of config.toml.
//
// What [Get] showed and comes back the same stays as it is in the file, and so
// does each argument of a server of which something was hidden. So do secrets
// that are left out or empty, keys of ours that are left out, and whole tables
// that are left out (provider, mcps, agents, env, system and those in it). A
// provider, server, agent or variable that its table leaves out is removed, and
// a key of the reference that is left out has its default again. null removes
// whatever it stands for.
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

// unplaced takes the lines from the problems of a text that nobody has seen.
func (l *loader) unplaced(ps Problems) Problems {
	ps = slices.Clone(ps)
	for i := range ps {
		if ps[i].Path == filepath.Join(l.home, File) {
			ps[i].Line = 0
		}
	}
	return ps
}

// encodeTOML encodes what was sent, and makes sure that it reads the same.
func encodeTOML(t tree) ([]byte, error) {
	text, err := toml.Marshal(t)
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s would have %d bytes, and may have %d", File, len(text), maxFile)
	}
	back, err := rawTOML(text)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(back, t) {
		return nil, fmt.Errorf("it holds what TOML cannot say")
	}
	return text, nil
}

// hasComment reports a comment in a text that has been found to be TOML.
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

// commented looks at a node, what is in it and what follows it.
func commented(n *unstable.Node) bool {
	for ; n.Valid(); n = n.Next() {
		if n.Kind == unstable.Comment || commented(n.Child()) {
			return true
		}
	}
	return false
}
