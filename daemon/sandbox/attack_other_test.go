//go:build !linux

package sandbox_test

func attack(string, []string) {}
