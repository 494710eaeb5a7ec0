//go:build !race

package tree_test

const treeRounds = 10_000
