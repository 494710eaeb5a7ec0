package line

import "errors"

// ErrInvalid is returned for values that a session file cannot contain: text
// that is not UTF-8, a message without a role, or a line over the limit.
var ErrInvalid = errors.New("invalid")
