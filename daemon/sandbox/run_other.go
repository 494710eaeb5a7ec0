//go:build !linux

package sandbox

import (
	"context"
	"errors"
)

const remedy = removeBash

// Main does nothing on this system.
func Main() {}

// Run returns an *Error on this system.
func Run(context.Context, *Command) (int, error) {
	return 0, &Error{errors.New("only Linux has the required namespaces")}
}
