// Package daemoncrash contains tests that cut the power while a daemon runs. The
// daemon runs in the test process on [faultfs.Mem], with a scripted model. The tests
// stop it before a file system call. They open a daemon on each crash state of a
// power cut at that call. This daemon must report every acknowledged entry, turn,
// summary, archive, title, cron entry, and configuration.
//
//	go test ./fuzz/daemoncrash                        seconds
//	CRABMEM_CRASH=full go test ./fuzz/daemoncrash -v  minutes
//	go test ./fuzz/daemoncrash -run Random -seed 7    repeat one random history
//
// TestPowerCuts cuts the power in a fixed sequence of requests, during recoveries,
// and after requests to a recovered daemon. TestControl does the same without
// syncs, and must find a loss. TestRandom cuts the power while four clients send
// requests. TestMutants breaks one rule in the source at a time, and requires that
// TestPowerCuts fails.
package daemoncrash
