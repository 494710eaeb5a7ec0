package main

import (
	"fmt"

	"crabmem/sessionlog"
)

const keptRemedy = "compare it with the session, then move or remove it"

// keptMessage describes a copy that a writer kept.
func keptMessage(k sessionlog.Kept) string {
	return fmt.Sprintf("%s: a writer of session %s kept this copy because another program changed its files", k.Path, k.ID)
}

// addKept adds the copies that writers of a session, or of any if id is empty,
// kept.
func (r *sessionsReport) addKept(d *sessionlog.Dir, id string) error {
	kept, err := d.Kept(id)
	for _, k := range kept {
		r.add(sessionProblem{Kind: problemKept, ID: k.ID, File: k.Path, Message: keptMessage(k), Remedy: keptRemedy})
	}
	return err
}

// warnKept warns of the copies that writers kept.
func (c *app) warnKept(d *sessionlog.Dir) error {
	kept, err := d.Kept("")
	for _, k := range kept {
		c.Warn(keptMessage(k) + "; " + keptRemedy)
	}
	return err
}
