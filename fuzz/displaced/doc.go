// Package displaced tests changes of a store's files while a writer has them open. The
// changes are remove, move, replace, overwrite, truncate, and chmod.
// After each change the writer writes, checkpoints, closes, is killed, or
// competes with a second writer. An oracle then follows the messages as a user
// would, and compares the recovered entries with the acknowledged ones.
//
// TestHistory changes files of the history, and compares the changes that the store
// shows with those that the writers made.
//
//	go test -v ./fuzz/displaced    prints the table of outcomes
//	CRABMEM_CRASH=full go test ./fuzz/displaced    all cells
package displaced
