package vfs

import "testing"

func TestOriginalStem(t *testing.T) {
	for stem, want := range map[string]string{
		"memory.sync-conflict-20260816-101112-ABCDEFG":            "memory",
		"memory (Ada's conflicted copy 2026-08-16)":               "memory",
		"memory (Ada's conflicted copy 2026-08-16) (1)":           "memory",
		"memory (conflicted copy 2026-08-16 101112)":              "memory",
		"memory (Case Conflict)":                                  "memory",
		"crab_user_1_conflict-20260816-101112":                    "crab_user_1",
		"memory_NAS_Aug-16-101112-2026_Conflict":                  "memory",
		"memory (SFConflict ada@example.org 2026-08-16-10-11-12)": "memory",
		"memory [conflicted]":                                     "memory",
		"memory (copia en conflicto de Ada 2026-08-16)":           "memory",
		"memory": "", "memory 2": "", "a conflict": "", "meeting (conflict with Bob)": "", "sync-conflict": "", "crab_user_1": "", "": "",
	} {
		if got := OriginalStem(stem); got != want {
			t.Errorf("%q: %q, want %q", stem, got, want)
		}
	}
}
