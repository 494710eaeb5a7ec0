package tiny

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "double" {
		fmt.Print(Double(4))
		return
	}
	m.Run()
}

func TestCopy(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "double")
	if err := os.WriteFile(name, b, 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(name)
	c.Env = []string{"A=B"}
	if out, err := c.CombinedOutput(); string(out) != "8" || err != nil {
		t.Errorf("%s, %v", out, err)
	}
}

func TestMax(t *testing.T) {
	for _, c := range [][3]int{{1, 2, 2}, {2, 1, 2}, {3, 3, 3}} {
		if got := Max(c[0], c[1]); got != c[2] {
			t.Errorf("Max(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestHalf(t *testing.T) {
	if got, err := Half(8); got != 4 || err != nil {
		t.Errorf("Half(8) = %d, %v", got, err)
	}
}

func TestDrain(t *testing.T) {
	if got := Drain([]string{"a", "b"}); got != "b" {
		t.Errorf("Drain = %q, want b", got)
	}
}
