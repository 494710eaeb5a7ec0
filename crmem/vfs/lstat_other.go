//go:build !linux

package vfs

import (
	"io/fs"
	"os"
)

func lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }
