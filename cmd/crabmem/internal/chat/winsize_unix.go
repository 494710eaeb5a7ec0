//go:build unix

package chat

import (
	"os"
	"os/signal"
	"syscall"
)

// watchTerminal sends a signal to resized when the size of the terminal changes,
// and to gone when the terminal closes or the user presses Ctrl+\. stop ends
// both.
func watchTerminal(resized, gone chan<- os.Signal) (stop func()) {
	signal.Notify(resized, syscall.SIGWINCH)
	signal.Notify(gone, syscall.SIGHUP, syscall.SIGQUIT)
	return func() {
		signal.Stop(resized)
		signal.Stop(gone)
	}
}
