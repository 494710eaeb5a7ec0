//go:build !linux

package tool

func attack(string, []string) {}
