// Package format encodes and decodes the files of a store: snapshots, logs, and
// identities (FORMAT.md). It does no I/O.
package format
