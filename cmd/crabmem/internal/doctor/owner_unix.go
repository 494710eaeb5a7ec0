//go:build unix

package doctor

import (
	"io/fs"
	"os"

	"crabmem/crmem/vfs"
)

// What counts on this system: the bits of modes, and the type of sockets.
const (
	ownModes = true
	sockets  = true
)

// ownedByOther reports whether something belongs to another user than this
// process.
func ownedByOther(fi fs.FileInfo) (yes bool, uid int) {
	uid, known := vfs.Owner(fi)
	return known && uid != os.Geteuid(), uid
}
