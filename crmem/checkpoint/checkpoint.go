// Package checkpoint contains the values of CheckpointOnClose in
// crmem.Options.
package checkpoint

// Mode selects when Close checkpoints the log.
type Mode uint8

const (
	Always Mode = iota // so that the snapshot contains every entry
	Auto               // if the snapshot is at most 1 MiB, or the log is larger than a quarter of it
	Never
)
