package tree_test

import (
	"fmt"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs/faultfs"
)

// A store is dumped as Markdown pages, and another store loads them.
func Example() {
	fsys := faultfs.NewMem()
	s := crmem.New(&crmem.Options{FS: fsys})
	if _, err := s.Remember("deploy", "build, tag, push", []string{"ship"}); err != nil {
		panic(err)
	}
	dumped, err := tree.Dump(s, "/brain", nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(dumped.Written)

	other := crmem.New(&crmem.Options{FS: fsys})
	loaded, err := tree.Load(other, "/brain", nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(loaded.Added)
	// Output:
	// [notes/deploy.md]
	// [deploy]
}
