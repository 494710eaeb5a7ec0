package page

import (
	"net/http"
	"slices"
	"strings"

	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/sessionlog/record"
)

// maxEnded limits the ended work that the page of a session shows.
const maxEnded = 20

// work returns a session's open work and newest ended work, or only its open work, which
// takes no reading of files.
func (v *visit) work(session string, open bool) (list []role.View) {
	q := op.WorkQuery{Session: session}
	if open {
		q.Session = ""
	}
	all, _ := op.ListWork.Do(v.r.Context(), v.store(), q) // a session that cannot be opened has no active work
	ended := 0
	for _, w := range slices.Backward(all) {
		isOpen := w.State == record.Running || w.State == record.Waiting
		if !isOpen {
			ended++
		}
		if w.Session == session && (isOpen || ended <= maxEnded) {
			list = append(list, w)
		}
	}
	return list
}

// changeWork cancels work, answers its question, or sends it a message.
func (v *visit) changeWork() (err error) {
	id := op.WorkID{Session: v.r.PathValue("id"), Work: v.r.PathValue("work")}
	text := strings.TrimSpace(unixLines(v.r.PostForm.Get("content")))
	switch v.r.PathValue("do") {
	case "cancel":
		_, err = op.CancelWork.Do(v.r.Context(), v.store(), id)
	case "answer":
		var w role.View
		if w, err = op.ShowWork.Do(v.r.Context(), v.store(), id); err == nil && unixLines(v.r.PostForm.Get("question")) != unixLines(w.Question) {
			err = &errtable.Error{HTTP: http.StatusConflict, Message: "the question was answered", Fix: "load the page again"}
		}
		if err != nil {
			break
		}
		_, err = op.AnswerWork.Do(v.r.Context(), v.store(), op.WorkAnswer{WorkID: id, Answer: text})
	case "route":
		_, err = op.RouteWork.Do(v.r.Context(), v.store(), op.WorkMessage{WorkID: id, Message: text})
	default:
		err = notFound("no such page", "choose a page of the navigation")
	}
	if err != nil {
		return err
	}
	return v.see(endOf(id.Session, 1))
}
