package analysis

import "testing"

// TestUnspacedDate requires digits and the sign for each part of a date.
func TestUnspacedDate(t *testing.T) {
	if y, m, d := unspacedDate([]byte("2024年1月2日")); y != 2024 || m != 1 || d != 2 {
		t.Errorf("2024年1月2日: %d %d %d", y, m, d)
	}
	for _, text := range []string{"年1月2日", "20241月2日", "2024年12日", "2024年1月2", "2024年1月日", ""} {
		if y, m, d := unspacedDate([]byte(text)); y != 0 || m != 0 || d != 0 {
			t.Errorf("%q is a date: %d %d %d", text, y, m, d)
		}
	}
}
