//go:build !linux

package secret

import "runtime"

// hasKeyring reports whether the system has a keyring that needs no session bus.
func hasKeyring() bool { return runtime.GOOS == "darwin" || runtime.GOOS == "windows" }
