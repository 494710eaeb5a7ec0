package tree

import (
	"fmt"
	"runtime/debug"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

func init() { debug.SetGCPercent(400) } // the stores are small and many

// DumpOptionsFor and LoadOptionsFor store the bases of a store in memory, or of a
// snapshot, next to the tree.
func DumpOptionsFor(dir string) *DumpOptions { return &DumpOptions{Bases: BasesFor(dir)} }
func LoadOptionsFor(dir string) *LoadOptions { return &LoadOptions{Bases: BasesFor(dir)} }
func BasesFor(dir string) string             { return dir + BasesSuffix }

// DumpSnapshot writes a snapshot as [Dump] writes a store.
func DumpSnapshot(fsys vfs.FS, dir string, sn *crmem.Snapshot, o *DumpOptions) (DumpReport, error) {
	if o == nil {
		o = &DumpOptions{}
	}
	return dump(bases{fsys, o.Bases, ""}, dir, sn, o)
}

// CountIDs makes the names of trees and dumps repeatable: they count from n.
func CountIDs(n int) {
	newID = func() string {
		n++
		return fmt.Sprintf("%032x", n)
	}
}
