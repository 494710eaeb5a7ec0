package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"crabmem/bm25/clip"
	"crabmem/crmem/vfs"
)

const (
	maxLayer    = 64 << 10  // bytes of one Crab.md
	maxLayers   = 256 << 10 // bytes of all of them
	maxIdentity = 16 << 10  // bytes of one of identityFiles
)

// identityFiles are the files of the home that agents receive after Crab.md, in this
// order. Homes of other programs contain them.
var identityFiles = []string{"SOUL.md", "IDENTITY.md", "USER.md"}

// Instructions returns the instructions for a run of an agent in a directory. It
// joins layers with a blank line: first the home's Crab.md, SOUL.md, IDENTITY.md,
// and USER.md, then the Crab.md of each directory from the root of the file system
// down to the directory. It uses each file once, so it does not repeat the home's
// Crab.md for a directory under the home.
//
// As in the reference, the home's files are both the prompt of the agent crab and
// the outermost layers of all agents. A request contains them once: Instructions
// omits them for crab, because [Load] puts them into crab's prompt.
//
// Instructions truncates a Crab.md over 64 KiB, and any other file over 16 KiB, and
// adds a note. If all layers exceed 256 KiB, it omits the outermost ones, except the
// home's. It ignores a file that is a link, not a regular file, or unreadable: a
// directory from another source must not reference a file of the user.
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
		if first, err = homeLayers(fsys, home); err != nil {
			return "", err
		}
	}
	room := maxLayers - len(first)
	var layers []string // innermost first
	for {
		if dir != home {
			text, err := layer(fsys, filepath.Join(dir, crabFile), maxLayer)
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
	return joinLayers(layers), nil
}

func joinLayers(layers []string) string {
	layers = slices.DeleteFunc(layers, func(text string) bool { return text == "" })
	return strings.Join(layers, "\n\n")
}

// homeLayers returns Crab.md and the identityFiles of the home.
func homeLayers(fsys vfs.FS, home string) (string, error) {
	text, err := layer(fsys, filepath.Join(home, crabFile), maxLayer)
	layers := []string{text}
	for _, name := range identityFiles {
		if err == nil {
			text, err = layer(fsys, filepath.Join(home, name), maxIdentity)
			layers = append(layers, text)
		}
	}
	return joinLayers(layers), err
}

// layer reads a file of instructions. It returns "" if the file is missing or must
// be ignored.
func layer(fsys vfs.FS, name string, limit int) (string, error) {
	f, err := fsys.Open(name)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, vfs.ErrNotRegular), errors.Is(err, syscall.ENOTDIR):
		return "", nil
	default:
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return "", err
	}
	return shortened(text, name, limit), nil
}

// shortened returns the text of a file, truncated to a limit with a note.
func shortened(text []byte, name string, limit int) string {
	note := ""
	if len(text) > limit {
		note = fmt.Sprintf("\n[%s is longer: this is its first %d KiB]", name, limit>>10)
	}
	return strings.TrimSpace(strings.ToValidUTF8(clip.Bytes(string(text), limit-len(note)), "\ufffd")) + note
}

// identity adds the identityFiles of the home to the prompt of crab, after Crab.md
// if the home has one, and lists the files in c.Identity.
func (l *loader) identity(c *Config, a *agentSource) {
	var layers []string
	own := a.agent.File != ""
	if own {
		c.Identity = append(c.Identity, Identity{a.agent.File, len(a.agent.Prompt)})
	}
	for _, name := range identityFiles {
		text, err := l.read(name, maxFile)
		f := l.file(name)
		if err != nil {
			f.add(0, "%s", reason(err))
		}
		if text == nil {
			continue
		}
		if len(text) > maxIdentity {
			l.warn(place{f, 0}, "%d bytes: agents receive the first %d: shorten it", len(text), maxIdentity)
		}
		own = own || name != "USER.md"
		c.Identity = append(c.Identity, Identity{f.path, len(text)})
		layers = append(layers, shortened(text, f.path, maxIdentity))
	}
	switch text := joinLayers(layers); {
	case text == "":
	case own && a.agent.File == "":
		a.agent.Prompt, a.agent.File = text, c.Identity[0].Path
	default:
		a.agent.Prompt = strings.TrimRight(a.agent.Prompt, "\n") + "\n\n" + text
	}
}

// InstructionsFile returns the path of the home's Crab.md.
func (c *Config) InstructionsFile() string { return filepath.Join(c.Home, crabFile) }
