// Package sessionlog keeps conversations as append-only files of JSON lines.
//
// A [Dir] is a folder of sessions, a [Log] one session open for writing, a
// [Session] one open for reading. Package search finds messages in all of them.
// The bytes are those of RFC 0064; FORMAT.md beside this file has every rule.
// DESIGN.md gives the reasons.
package sessionlog
