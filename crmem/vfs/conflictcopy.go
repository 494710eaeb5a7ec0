package vfs

import (
	"regexp"
	"sync"
)

// copyName matches the stem of a conflict copy that a sync program made, and the stem of
// the original page.
var copyName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(.+?)(?:` +
		`\.sync-conflict-\d{8}-\d{6}(?:-[a-z0-9]+)?` + // Syncthing
		`|[ _]?\((?:[^()]*conflicted copy[^()]*|[^()]*(?:case|unicode encoding|white ?space|selective sync) conflict[^()]*|sfconflict [^()]*` + // Dropbox, Nextcloud, Seafile
		`|[^()]*(?:in konflikt stehende kopie|copie en conflit|copia en conflicto|cópia em conflito)[^()]*)\)(?: \(\d+\))?` +
		// pCloud, ownCloud, Synology, Resilio
		`| \[conflicted\]|_conflict-\d{8}-\d{6}|_[^_]+_[a-z]{3}-\d\d-\d{4,6}-\d{4}_conflict|\.conflict)$`)
})

// OriginalStem returns the stem of the file whose conflict copy a sync program gave a
// stem, or "" if the stem has no form of a conflict copy.
func OriginalStem(stem string) string {
	m := copyName().FindStringSubmatch(stem)
	if m == nil {
		return ""
	}
	return m[1]
}
