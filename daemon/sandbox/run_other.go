//go:build !linux

package sandbox

import (
	"context"
	"errors"
)

const confineRemedy = confineNever

// ConfinedMain is for Linux; here commands of confined agents are not run.
func ConfinedMain() {}

func Run(context.Context, *Command) (int, error) {
	return 0, &ConfineError{errors.New("only Linux has the namespaces it takes")}
}
