//go:build !linux

package main

import "os"

// peak returns 0: other systems have no such figure, or have it in another unit.
func peak(*os.ProcessState) int64 { return 0 }
