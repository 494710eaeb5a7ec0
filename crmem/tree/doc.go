// Package tree writes a store as a Markdown tree that people read and edit, and
// loads the tree back exactly (TREE.md).
//
//	report, err := tree.Dump(s, "brain", nil)
//	report, err := tree.Load(s, "brain", &tree.LoadOptions{Merge: true})
package tree
