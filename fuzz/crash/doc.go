// Package crash contains the tests that crash a store. They run it on
// [vfs.Mem], stop it before a file system call, and enumerate the crash states
// of a power cut there. The next Open must find every acknowledged operation,
// and every other operation either completely or not at all.
//
//	go test ./fuzz/crash                        seconds: sequences of two operations
//	CRABMEM_CRASH=full go test ./fuzz/crash -v -timeout 30m
//	                                            minutes: of three, and the mutants
//	go test ./fuzz/crash -run Random -seed 7    one random history again
//
// TestEnumerate crashes at every call of every short sequence (L1) and again
// during the recovery (L2). TestErrors fails every call (L3). TestRandom runs
// long histories (L4). TestReaders reads during checkpoints. TestMutants breaks
// the protocol in the store's source, one rule at a time, and requires that
// these tests fail.
package crash
