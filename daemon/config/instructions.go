package config

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"crabmem/crmem/vfs"
)

const (
	maxLayer  = 64 << 10  // bytes of one Crab.md
	maxLayers = 256 << 10 // bytes of all of them
)

// Instructions returns the layers of Crab.md for a run of an agent in a
// directory: first the home's, then those from the root of the file system down
// to the directory, joined with a blank line. A file is a layer only once, so
// in a directory under the home the home's file is not repeated.
//
// In the reference the home's Crab.md is both the prompt of the agent crab and
// the outermost layer of all agents. Here it is too, but a request contains it
// once: Instructions omits it for the agent crab, whose prompt [Load] read from
// it.
//
// A layer over 64 KiB is truncated and ends with a note. If all layers exceed
// 256 KiB, the outermost ones are omitted, except the home's. A Crab.md that is
// a link, not a regular file, or unreadable is ignored: a directory from
// another source must not reference a file of the user.
func Instructions(fsys vfs.FS, home, dir, agent string) (string, error) {
	home, err := fsys.Resolve(home)
	if err != nil {
		return "", err
	}
	if dir, err = fsys.Resolve(dir); err != nil {
		return "", err
	}
	first := ""
	if agent != Crab {
		if first, err = layer(fsys, home); err != nil {
			return "", err
		}
	}
	room := maxLayers - len(first)
	var layers []string // innermost first
	for {
		if dir != home {
			text, err := layer(fsys, dir)
			if err != nil {
				return "", err
			}
			if room -= len("\n\n") + len(text); room < 0 {
				break
			}
			layers = append(layers, text)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	layers = append(layers, first)
	slices.Reverse(layers)
	layers = slices.DeleteFunc(layers, func(text string) bool { return text == "" })
	return strings.Join(layers, "\n\n"), nil
}

// layer reads the Crab.md of a directory. It returns "" if it is missing.
func layer(fsys vfs.FS, dir string) (string, error) {
	name := filepath.Join(dir, "Crab.md")
	f, err := fsys.Open(name)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, vfs.ErrNotRegular), errors.Is(err, syscall.ENOTDIR):
		return "", nil
	default:
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLayer+1))
	if err != nil {
		return "", err
	}
	if len(text) <= maxLayer {
		return strings.TrimSpace(strings.ToValidUTF8(string(text), "\ufffd")), nil
	}
	note := "\n[" + name + " is longer: this is its first 64 KiB]"
	return strings.TrimSpace(strings.ToValidUTF8(string(text[:maxLayer-len(note)]), "")) + note, nil
}
