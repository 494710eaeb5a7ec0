package crmem

// Names that the external tests use.
const (
	IDSuffix   = idSuffix
	HeldSuffix = heldSuffix
	WALSuffix  = walSuffix
	LockSuffix = lockSuffix
)

var (
	NoErr    = noErr
	Opened   = opened
	MemBytes = memBytes
	LogOf    = logOf
)
