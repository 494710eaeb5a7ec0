package vfs

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestOriginalStem(t *testing.T) {
	for stem, want := range map[string]string{
		"memory.sync-conflict-20260816-101112-ABCDEFG":             "memory",
		"memory (Ada's conflicted copy 2026-08-16)":                "memory",
		"memory (Ada's conflicted copy 2026-08-16) (1)":            "memory",
		"memory (conflicted copy 2026-08-16 101112)":               "memory",
		"memory (Case Conflict)":                                   "memory",
		"crab_user_1_conflict-20260816-101112":                     "crab_user_1",
		"memory_NAS_Aug-16-101112-2026_Conflict":                   "memory",
		"memory (SFConflict ada@example.org 2026-08-16-10-11-12)":  "memory",
		"memory [conflicted]":                                      "memory",
		"memory (copia en conflicto de Ada 2026-08-16)":            "memory",
		"memory (Copie en conflit de Ada 2026-08-16)":              "memory",
		"memory (In Konflikt stehende Kopie von Ada 2026-08-16)":   "memory",
		"memory (Ada の競合コピー 2026-08-16)":                           "memory",
		"memory (конфликтующая копия пользователя Ada 2026-08-16)": "memory",
		"memory (copia in conflitto di Ada 2026-08-16)":            "memory",
		"meeting (Konflikt mit Bob)":                               "",
		"meeting (Bob 2026-08-16)":                                 "",
		"memory":                                                   "", "memory 2": "", "a conflict": "", "meeting (conflict with Bob)": "", "sync-conflict": "", "crab_user_1": "", "": "",
	} {
		if got := OriginalStem(stem); got != want {
			t.Errorf("%q: %q, want %q", stem, got, want)
		}
	}
}

func TestOriginalIn(t *testing.T) {
	list, err := fs.ReadDir(fstest.MapFS{"a-b_1.x": {}, "crab_user_1.x": {}, "crab_user_1 2.x": {}, "crab_user_1_title.x": {}, "crab_user_3.y": {}}, ".")
	if err != nil {
		t.Fatal(err)
	}
	for stem, want := range map[string]string{
		"crab_user_1 2": "crab_user_1", "crab_user_1 (1)": "crab_user_1", "crab_user_1-LAPTOP": "crab_user_1", "crab_user_1-Adas-MacBook-Pro": "crab_user_1",
		"crab_user_1_title-PC-2": "crab_user_1_title", "a-b_1-PC": "a-b_1", "other.conflict": "other",
		"crab_user_2 2": "", "crab_user_3 2": "", "crab_user_1-second": "", "crab_user_1": "", "crab_user_1_title-of": "", "crab_user_1-A_1": "", "": "",
	} {
		if got := OriginalIn(list, stem, ".x"); got != want {
			t.Errorf("%q: %q, want %q", stem, got, want)
		}
	}
}
