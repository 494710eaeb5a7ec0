// Package daemoncrash contains the tests that cut the power under a daemon. The
// daemon runs in this process on [vfs.Mem], with a scripted model. The tests
// stop it before a file system call, and open a daemon on each crash state of a
// power cut there. That daemon must report every acknowledged entry, turn,
// summary, archive, title, cron entry, and configuration.
//
//	go test ./fuzz/daemoncrash                        seconds
//	CRABMEM_CRASH=full go test ./fuzz/daemoncrash -v  minutes
//	go test ./fuzz/daemoncrash -run Random -seed 7    one random history
//
// TestPowerCuts cuts the power in a fixed sequence of requests, and again while
// a daemon recovers and continues. TestControl does the same without syncs, and
// must find a loss. TestRandom cuts the power under four concurrent clients.
// TestMutants breaks the daemon in its source: TestPowerCuts must fail.
package daemoncrash
