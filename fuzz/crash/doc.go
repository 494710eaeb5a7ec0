// Package crash contains tests that crash a store. The tests run a store on
// [faultfs.Mem] and stop it before a file system call. They enumerate the crash states
// of a power cut at that call. The next Open must find every acknowledged
// operation. Every other operation must be complete or have no effect.
//
//	go test ./fuzz/crash                        seconds; sequences of two operations
//	CRABMEM_CRASH=full go test ./fuzz/crash -v -timeout 30m
//	                                            minutes; sequences of three, and the mutants
//	go test ./fuzz/crash -run Random -seed 7    repeat one random history
//
// TestEnumerate crashes at every call of every short sequence (L1) and at every
// call of a recovery (L2). TestErrors fails every call (L3). TestRandom runs long
// histories (L4). TestReaders reads during checkpoints. TestMutants breaks one rule
// of the protocol in the source at a time, and requires that one of the tests
// fails.
package crash
