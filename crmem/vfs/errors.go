package vfs

import "fmt"

// TooLargeError says that a file is over the size the caller accepts.
type TooLargeError struct {
	Name      string
	Size, Max int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: %d bytes, more than the limit of %d", e.Name, e.Size, e.Max)
}
