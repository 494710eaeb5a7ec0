// Package feed connects a folder of sessions with the index over it.
package feed

import (
	"time"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
)

// Watcher receives each change that this process makes to the files of a folder,
// after the change. Calls for one file are in the order of the changes.
type Watcher interface {
	// Wrote reports complete lines that were appended at an offset. The bytes
	// are valid until Wrote returns.
	Wrote(name string, at int64, b []byte)
	// Renamed reports a file with another name.
	Renamed(from, to string)
	// Removed reports a file that left the folder.
	Removed(name string)
	// Changed reports a file that is new, or whose content changed other than by
	// an append.
	Changed(name string)
}

// Attach makes w receive the changes of the files of a *sessionlog.Dir until
// detach is called. ok is false if the Dir already has a watcher. Package
// sessionlog sets Attach, so that its API needs no method for it.
var Attach func(dir any, w Watcher) (folder Folder, detach func(), ok bool)

// Folder is the access of an index to a folder.
type Folder struct {
	FS      vfs.FS
	Path    string
	MaxLine int64 // bytes
	Now     func() time.Time
	// Names returns the names of the session files, in order.
	Names func() ([]string, error)
	// ID returns the session ID of a file with the meta line m. shaped reports
	// whether the file name begins with the ID.
	ID func(file string, m *line.Meta) (id string, shaped bool)
}
