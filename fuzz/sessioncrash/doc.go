// Package sessioncrash contains tests that crash package sessionlog. The tests
// run sessionlog on [faultfs.Mem] and stop it before a file system call. They enumerate
// the crash states of a power cut or a kill at that call. Every acknowledged
// session must exist, with a complete meta line and all acknowledged messages in
// order.
//
//	go test ./fuzz/sessioncrash                        seconds; sequences of two operations
//	CRABMEM_CRASH=full go test ./fuzz/sessioncrash -v  minutes; sequences of three, and the mutants
//	go test ./fuzz/sessioncrash -run Random -seed 7    repeat one random history
//
// TestEnumerate crashes at every call of every short sequence (L1) and at every
// call of a recovery (L2). TestErrors fails every call (L3). TestRandom runs
// long histories of two processes (L4). TestMutants breaks one rule of the
// protocol in the source at a time, and requires that one of the tests fails.
package sessioncrash
