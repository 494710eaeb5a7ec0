//go:build unix

package chat

import (
	"os"
	"os/signal"
	"syscall"
)

// watchTerminal tells when the terminal has another size, and when it goes away.
func watchTerminal(resized, gone chan<- os.Signal) (stop func()) {
	signal.Notify(resized, syscall.SIGWINCH)
	signal.Notify(gone, syscall.SIGHUP, syscall.SIGQUIT)
	return func() {
		signal.Stop(resized)
		signal.Stop(gone)
	}
}
