// Package workcrash contains tests that crash package daemon/work. The tests run it on
// [faultfs.Mem] and stop it before a file system call. They enumerate the crash states of
// a power cut or a kill at that call. After a recovery each acknowledged spawn must have
// exactly one outcome, each outcome must be delivered exactly once, and each accepted
// message must be taken in. Each acknowledged question must be open until its answer is used
// or delivered, which happens at most once.
//
//	go test ./fuzz/workcrash                        seconds; one in 5 sequences of two operations
//	CRABMEM_CRASH=full go test ./fuzz/workcrash -v  minutes; all sequences of up to four, and the mutants
//
// TestEnumerate crashes at every call of every short sequence, and at every call of a
// recovery. TestHistories runs random histories with restarts, power cuts, kills, and
// full disks. TestMutants breaks one rule of the protocol in the source at a time, and
// requires that one of the tests fails.
package workcrash
