package vfs

import (
	"errors"
	"fmt"
	"syscall"
)

// TooLargeError says that a file is over the size the caller accepts.
type TooLargeError struct {
	Name      string
	Size, Max int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: %d bytes, more than the limit of %d", e.Name, e.Size, e.Max)
}

// OutOfSpace reports whether a write failed because there is no room: on the
// disk, in a quota, or in a file.
func OutOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) || errors.Is(err, syscall.EFBIG)
}
