// Package testdata holds the sample brain: the memory of an agent, made up,
// as a tree of Markdown pages that crabmem load reads.
package testdata

import "embed"

// Brain is the sample brain, under "brain".
//
//go:embed brain
var Brain embed.FS
