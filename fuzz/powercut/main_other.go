//go:build !linux

package main

import (
	"fmt"
	"os"
	"slices"
)

func main() {
	fmt.Println("powercut: skipped: powercut needs Linux")
	if slices.Contains(os.Args[1:], "-require") {
		os.Exit(1)
	}
}
