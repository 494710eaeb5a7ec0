package scan

import (
	"errors"
	"fmt"
	"strings"
)

// ErrSecret is the cause of a refusal of an input. No error contains the secret.
var ErrSecret = errors.New("secret")

// Policy is the setting [memory] secrets: what happens to a text with a secret.
type Policy string

// The policies. An input is a text that a request asks to store, such as a note. A
// record is a text that a run must store, such as the result of a tool.
const (
	Default   Policy = "default" // refuses inputs, redacts records
	RedactAll Policy = "redact"  // redacts both
	Refuse    Policy = "refuse"  // refuses inputs, stores a notice in place of a record
	Warn      Policy = "warn"    // stores both and warns
	Off       Policy = "off"     // stores both
)

// Policies are the policies, in the order of the documentation.
var Policies = []string{string(Default), string(RedactAll), string(Refuse), string(Warn), string(Off)}

// Record returns the text to store for a record, and the secrets of text, including the
// values of k. It returns no secrets under the policy Off.
func (p Policy) Record(text string, k *Known) (string, []Match) {
	if p == Off {
		return text, nil
	}
	found := k.Find(text)
	switch {
	case len(found) == 0 || p == Warn:
		return text, found
	case p == Refuse:
		return "[not stored: the text contains " + Describe(text, found) + "]", found
	}
	return Replace(text, found), found
}

// Describe returns the kind and the place of the first secret in text, and the
// number of the others.
func Describe(text string, found []Match) string {
	before := text[:found[0].Start]
	line := strings.Count(before, "\n") + 1
	at := found[0].Start - (strings.LastIndexByte(before, '\n') + 1)
	s := fmt.Sprintf("a secret: %s at line %d, byte %d", found[0].Kind, line, at+1)
	if more := len(found) - 1; more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}
