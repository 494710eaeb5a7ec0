package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestCloneDevicesReportsMissingDevice clones a device that does not exist. An
// error that is ignored would leave an invalid descriptor in the result.
func TestCloneDevicesReportsMissingDevice(t *testing.T) {
	old := devices
	t.Cleanup(func() { devices = old })
	devices = []string{"crabmem-missing"}
	fds, err := cloneDevices()
	var failed *os.PathError
	if !errors.As(err, &failed) || failed.Path != "/dev/crabmem-missing" || fds != nil {
		t.Errorf("cloneDevices returned %v, %v", fds, err)
	}
}

func TestReadMounts(t *testing.T) {
	mounts, err := readMounts()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for in := bufio.NewScanner(f); in.Scan(); n++ {
		w := strings.Fields(in.Text())
		if m := mounts[min(n, len(mounts)-1)]; fmt.Sprint(m.id) != w[0] || m.root != unescape.Replace(w[3]) || m.at != unescape.Replace(w[4]) {
			t.Errorf("%+v of %s", m, in.Text())
		}
	}
	if len(mounts) != n || n == 0 || !slices.ContainsFunc(mounts, func(m mount) bool { return m.at == "/" }) {
		t.Errorf("%d mounts of %d lines: %+v", len(mounts), n, mounts)
	}
}

// TestUnprepared checks that a program that did not call Main cannot
// confine commands.
func TestUnprepared(t *testing.T) {
	defer confinable.Store(confinable.Swap(false))
	if err := Check(t.Context()); err == nil || !strings.Contains(err.Error(), "program does not call sandbox.Main") {
		t.Error(err)
	}
}
