//go:build !linux && !darwin && !freebsd && !windows

package vfs

import "errors"

// Free returns errors.ErrUnsupported on this system.
func Free(string) (int64, error) { return 0, errors.ErrUnsupported }
