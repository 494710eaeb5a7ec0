package workcrash

import (
	"errors"
	"fmt"
	"strings"

	"crabmem/daemon/work"
	"crabmem/sessionlog/record"
)

// asker is work, or the session that gives it out.
type asker interface {
	Ask(q record.Work) (*record.Work, error)
	Question() *record.Work
	Decide(q *record.Work, text string) error
}

// asker returns who has an open question without an answer: the last work or the session.
func (w *world) asker() asker {
	if w.last != nil {
		if q := w.last.Question(); q != nil && q.Answer == "" {
			return w.last
		}
	}
	if q := w.p.Question(); q != nil && q.Answer == "" {
		return w.p
	}
	return nil
}

// next returns the fact with the next number after those that were acknowledged.
func (w *world) next(prefix string) string {
	n := 1
	for w.facts.has(fmt.Sprintf("%s.%d ", prefix, n)) && !w.never(fmt.Sprintf("%s.%d ", prefix, n)) {
		n++
	}
	return fmt.Sprintf("%s.%d", prefix, n)
}

// never reports whether no fact with a prefix is acknowledged.
func (w *world) never(prefix string) bool {
	for fact, acked := range w.facts {
		if acked && strings.HasPrefix(fact, prefix) {
			return false
		}
	}
	return true
}

// ask asks about a call that no question was about.
func (w *world) ask(prefix string, a asker) error {
	if q := a.Question(); a == asker(w.p) && q != nil && q.Answer != "" {
		return nil // refused: the answer is owed
	}
	text := strings.TrimSpace(strings.Repeat(fmt.Sprint("may call ", w.count, " run? "), 40))
	fact := w.next(prefix) + " " + text
	w.maybe(fact)
	q, err := a.Ask(record.Work{Text: text, Call: fmt.Sprint("call ", w.count), To: "user"})
	if err == nil && !strings.HasPrefix(fact, fmt.Sprintf("%s.%d ", prefix, q.N)) {
		return wrong("question %d, want %.20s", q.N, fact)
	} else if errors.Is(err, work.ErrTransition) {
		delete(w.facts, fact)
	}
	return w.ack(err, fact)
}

// answer answers the open question.
func (w *world) answer() error {
	a := w.asker()
	q := a.Question()
	prefix := "parent"
	if i, ok := a.(*work.Item); ok {
		prefix = i.ID
	}
	text := strings.TrimSpace(strings.Repeat(fmt.Sprint("answer ", w.count, " "), 40))
	fact := fmt.Sprint("answer ", prefix, ".", q.N, " ", text)
	w.maybe(fact)
	had := w.p.Inbox()
	if err := a.Decide(q, text); err != nil {
		return err
	}
	if a == asker(w.p) && w.p.Inbox() != had+1 {
		return wrong("%d outcomes in the inbox after an answer, want %d", w.p.Inbox(), had+1)
	}
	return w.ack(nil, fact)
}

// use closes the question of the last work. Its answer is the one that was acknowledged, or
// that a crash left.
func (w *world) use() error {
	q := w.last.Question()
	if q == nil {
		return nil
	}
	fact := fmt.Sprint("use ", w.last.ID, ".", q.N)
	w.maybe(fact)
	text, err := w.last.Use()
	if err != nil {
		return err
	}
	if answered := w.facts.has(fmt.Sprint("answer ", w.last.ID, ".", q.N, " ")); text != "" && !w.facts.has(fmt.Sprint("answer ", w.last.ID, ".", q.N, " ", text)) || text == "" && answered && !w.never(fmt.Sprint("answer ", w.last.ID, ".", q.N, " ")) {
		return wrong("%s was used with the answer %.20q", fact, text)
	}
	if _, err := w.last.Use(); err == nil {
		return wrong("%s: an answer was used twice", fact)
	}
	return w.ack(nil, fact)
}

// questions compares the open questions with the files: the answer of each one is that of
// the file, and a used one is closed.
func (w *world) questions(all facts) error {
	check := func(name string, q *record.Work) error {
		if q == nil {
			return nil
		}
		answer := ""
		for fact := range all {
			if rest, ok := strings.CutPrefix(fact, fmt.Sprint("answer ", name, ".", q.N, " ")); ok {
				answer = rest
			}
		}
		if !all[fmt.Sprint("ask ", name, ".", q.N, " ", q.Text)] || all[fmt.Sprint("use ", name, ".", q.N)] || q.Answer != answer {
			return wrong("question %d of %s is open with the answer %.20q, want %.20q", q.N, name, q.Answer, answer)
		}
		return nil
	}
	for _, i := range w.p.Items() {
		if err := check(i.ID, i.Question()); err != nil {
			return err
		}
		status, _ := i.Status()
		for n := 1; status.State == record.Running; n++ {
			key := fmt.Sprint(i.ID, ".", n)
			if !all.has("ask " + key + " ") {
				break
			}
			last := !all.has(fmt.Sprint("ask ", i.ID, ".", n+1, " ")) && !all.has("end "+i.ID+".")
			if q := i.Question(); last && !all["use "+key] && (q == nil || q.N != n) {
				return wrong("the question %s is lost", key)
			}
		}
	}
	return check("parent", w.p.Question())
}
