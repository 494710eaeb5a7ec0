package client

import (
	"testing"
	"time"
)

// TestHelloTimeout checks the limits of the time that a daemon has for Hello.
func TestHelloTimeout(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		-time.Second: minHelloWait, 0: minHelloWait, 3 * time.Second: 3 * time.Second, time.Hour: HelloWait,
	} {
		if got := helloTimeout(left); got != want {
			t.Errorf("helloTimeout(%v) = %v, want %v", left, got, want)
		}
	}
}
