// Package testdata holds a part of the program that tests use, too: the sample brain,
// which is the invented memory of an agent as a Markdown tree.
package testdata

import "embed"

// Brain is the sample brain, under "brain".
//
//go:embed brain
var Brain embed.FS
