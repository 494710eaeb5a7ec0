package recalleval

// SetMaxJSON sets the limit for a JSON file, and returns the limit before.
func SetMaxJSON(n int64) (old int64) {
	old, maxJSON = maxJSON, n
	return old
}
