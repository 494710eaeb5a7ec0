package vfs

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// copyName matches the stem of a conflict copy that a sync program made, and the stem of
// the original page.
var copyName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(.+?)(?:` +
		`\.sync-conflict-\d{8}-\d{6}(?:-[a-z0-9]+)?` + // Syncthing
		`|[ _]?\((?:[^()]*conflicted copy[^()]*|[^()]*(?:case|unicode encoding|white ?space|selective sync) conflict[^()]*|sfconflict [^()]*` + // Dropbox, Nextcloud, Seafile
		`|[^()]*(?:conflict|conflit|konflikt|конфл|競合|冲突|衝突|충돌|motstrid|modstrid)[^()]*\d{4}-\d\d-\d\d[^()]*)\)(?: \(\d+\))?` +
		// pCloud, ownCloud, Synology, Resilio
		`| \[conflicted\]|_conflict-\d{8}-\d{6}|_[^_]+_[a-z]{3}-\d\d-\d{4,6}-\d{4}_conflict|\.conflict)$`)
})

// OriginalStem returns the stem of the file whose conflict copy a sync program gave a
// stem, or "" if the stem has no form of a conflict copy.
func OriginalStem(stem string) string {
	if !strings.ContainsAny(stem, "([") && !strings.Contains(strings.ToLower(stem), "conflict") {
		return "" // most names, without the costly match
	}
	m := copyName().FindStringSubmatch(stem)
	if m == nil {
		return ""
	}
	return m[1]
}

// copySuffix matches what iCloud, Google Drive, and OneDrive add to the stem of a copy.
var copySuffix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?: \d+| \(\d+\)|-[^_ ]*[A-Z][^_ ]*)$`) })

// OriginalIn returns the stem of the file whose conflict copy a file of a directory seems
// to be, or "". list is the directory in name order, and ext the extension of both files.
// A name of iCloud, Google Drive, or OneDrive counts only if the original exists, because
// people give such names, too.
func OriginalIn(list []fs.DirEntry, stem, ext string) string {
	if original := OriginalStem(stem); original != "" {
		return original
	}
	if !strings.Contains(stem, " ") && strings.ToLower(stem) == stem {
		return ""
	}
	for i, c := range stem {
		if (c == ' ' || c == '-') && copySuffix().MatchString(stem[i:]) {
			if _, ok := slices.BinarySearchFunc(list, stem[:i]+ext, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) }); ok {
				return stem[:i]
			}
		}
	}
	return ""
}
