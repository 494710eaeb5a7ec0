// Package spacecrash contains tests that crash a home with spaces on [faultfs.Mem]. They
// enumerate the crash states of a power cut before each call of an operation that
// creates, writes, renames, removes, or adopts a space. In each state a space is
// complete under exactly one name, or absent, and contains every acknowledged entry.
// An adopted store is complete as the space or under its old name.
//
//	go test ./fuzz/spacecrash                        seconds; sequences of two operations
//	CRABMEM_CRASH=full go test ./fuzz/spacecrash -v  minutes; sequences of three
package spacecrash
