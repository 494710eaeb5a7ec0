package tool

import (
	"errors"
	"os"
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
