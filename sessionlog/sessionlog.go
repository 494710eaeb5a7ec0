// Package sessionlog stores sessions as append-only files of JSON lines.
//
// A [Dir] is a folder of sessions. A [Log] is a session open for writing, and a
// [Session] is a session open for reading. Package search finds messages in all
// sessions of a folder. FORMAT.md defines the bytes, which are those of RFC 0064.
// DESIGN.md gives the reasons.
package sessionlog
