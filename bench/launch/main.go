// Launch runs a command and writes to standard output its CPU time and its wall time, in
// nanoseconds, and its largest resident memory, in bytes:
//
//	launch PROGRAM [ARG...]
//
// It is small because Linux counts the memory of the parent for a child until the child
// starts its own program. The output of the command is discarded.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

func main() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "launch: %v: %v\n", os.Args[1:], err)
		os.Exit(1)
	}
	wall, p := time.Since(began), cmd.ProcessState
	fmt.Println(int64(p.UserTime()+p.SystemTime()), int64(wall), peak(p))
}
