// Package sessioncrash contains the tests that crash a folder of sessions. They
// run it on [vfs.Mem], stop it before a file system call, and enumerate the
// crash states of a power cut or a kill there. Every acknowledged session must
// exist, with its complete meta line and every acknowledged message in its
// place.
//
//	go test ./fuzz/sessioncrash                        seconds: sequences of two operations
//	CRABMEM_CRASH=full go test ./fuzz/sessioncrash -v  a minute or two: of three, and the mutants
//	go test ./fuzz/sessioncrash -run Random -seed 7    one random history again
//
// TestEnumerate crashes at every call of every short sequence (L1) and again
// during the recovery (L2). TestErrors fails every call (L3). TestRandom runs
// long histories of two processes (L4). TestMutants breaks the protocol in the
// source, one rule at a time, and requires that these tests fail.
package sessioncrash
