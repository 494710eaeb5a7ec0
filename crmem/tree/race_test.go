//go:build race

package tree_test

// The race detector looks at the code, not at the cases.
const treeRounds = 1_000
