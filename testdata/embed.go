// Package testdata holds two parts of the program that tests use, too: the sample
// brain, which is the invented memory of an agent as a Markdown tree, and the
// schemas of JSON output.
package testdata

import "embed"

// Brain is the sample brain, under "brain".
//
//go:embed brain
var Brain embed.FS

// Schemas has the JSON Schemas of the commands' output, as schema/NAME.json.
//
//go:embed schema
var Schemas embed.FS
