//go:build !race

package crmem_test

const treeRounds = 10_000
