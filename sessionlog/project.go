package sessionlog

import (
	"path/filepath"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/crmem/vfs"
)

// maxProject bounds the name of a project, in bytes.
const maxProject = 256

// ProjectOf returns the name of the project in a working directory: of the nearest
// directory at or above it that contains .git, or else of the directory. If fs is nil,
// it reads no directory. dir may be a path of another system or, as \\HOST\SHARE, of
// another machine, which ProjectOf does not ask.
func ProjectOf(fs vfs.FS, dir string) string {
	for top := dir; fs != nil && filepath.IsAbs(dir) && !strings.HasPrefix(dir, `\\`); top = filepath.Dir(top) {
		if _, err := fs.Lstat(filepath.Join(top, ".git")); err == nil {
			dir = top
			break
		}
		if top == filepath.Dir(top) {
			break
		}
	}
	dir = strings.TrimRight(dir, `/\`)
	return clip.Bytes(strings.ToValidUTF8(dir[strings.LastIndexAny(dir, `/\`)+1:], ""), maxProject)
}
