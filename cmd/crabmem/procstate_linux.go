package main

import (
	"bytes"
	"fmt"
	"io"

	"crabmem/crmem/vfs"
)

// maxStat limits the bytes that are read of /proc/PID/stat.
const maxStat = 4 << 10

// processState returns the state of a process as the letter of /proc/PID/stat,
// or 0 if the state is unknown.
func processState(pid int) byte {
	f, err := vfs.OS{}.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxStat))
	if err != nil {
		return 0
	}
	// The command's name is in parentheses and may contain more of them.
	_, after, ok := bytes.Cut(b[max(bytes.LastIndexByte(b, ')'), 0):], []byte(") "))
	if !ok || len(after) == 0 {
		return 0
	}
	return after[0]
}
