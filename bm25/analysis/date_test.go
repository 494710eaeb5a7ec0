package analysis

import "testing"

// TestUnspacedDate requires digits and the sign for each part of a date.
func TestUnspacedDate(t *testing.T) {
	if y, m, d, ok := unspacedDate([]byte("2024年1月2日")); !ok || y != 2024 || m != 1 || d != 2 {
		t.Errorf("2024年1月2日: %d %d %d %t", y, m, d, ok)
	}
	for _, text := range []string{"年1月2日", "20241月2日", "2024年12日", "2024年1月2", "2024年1月日", ""} {
		if _, _, _, ok := unspacedDate([]byte(text)); ok {
			t.Errorf("%q is a date", text)
		}
	}
}
