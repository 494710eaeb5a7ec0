//go:build !linux && !darwin && !freebsd && !windows

package vfs

import "errors"

func (OS) Free(string) (int64, error) { return 0, errors.ErrUnsupported }
