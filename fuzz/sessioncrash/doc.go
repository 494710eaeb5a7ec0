// Package sessioncrash holds the tests that crash a folder of sessions. They
// run it on [vfs.Mem], stop it before a file system call, and look at what a
// power cut or a kill there may leave: every session that was acknowledged,
// with its meta line whole and every acknowledged message in its place.
//
//	go test ./fuzz/sessioncrash                        seconds: sequences of two operations
//	CRABMEM_CRASH=full go test ./fuzz/sessioncrash -v  a minute or two: of three, and the mutants
//	go test ./fuzz/sessioncrash -run Random -seed 7    one random history again
//
// TestEnumerate crashes at every call of every short sequence (L1) and again
// during the recovery (L2), TestErrors fails every call (L3), TestRandom runs
// long histories of two processes (L4). TestMutants breaks the protocol in the
// source, one rule at a time, and demands that these tests notice.
package sessioncrash
