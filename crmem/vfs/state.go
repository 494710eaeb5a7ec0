package vfs

import "io/fs"

// FileState identifies a file's contents. The zero value is a missing file.
type FileState struct {
	dev, ino       uint64
	size, modified int64
}

// StateOf returns the state of the file that a FileInfo of this package describes.
func StateOf(fi fs.FileInfo) FileState {
	id := Identify(fi)
	return FileState{id.Dev, id.Ino, fi.Size(), fi.ModTime().UnixNano()}
}
