package tiny

import "testing"

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
