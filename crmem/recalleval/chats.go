package recalleval

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// maxJSON limits a file of JSON, in bytes. Tests lower it.
var maxJSON int64 = 1 << 30

// Names of BEAM's files, in a chat's directory.
const (
	beamChat      = "chat.json"
	beamQuestions = "probing_questions/probing_questions.json"
)

// chats is a set of conversations in the making. Each message becomes a note with the
// metadata that imports write.
type chats struct {
	open    Open
	set     *Set
	queries []Query
	qrels   map[string]map[string]int
	ids     map[string]bool
}

// loadChats reads files in the form in which LoCoMo, REALTALK, BEAM, or LongMemEval is
// published. Each conversation is a group; in LongMemEval, each question's sessions are.
func loadChats(open Open, name string, files []string) (*Set, error) {
	c := &chats{open, &Set{Name: name}, nil, make(map[string]map[string]int), make(map[string]bool)}
	for _, file := range files {
		group := strings.TrimSuffix(filepath.Base(file), ".json")
		if filepath.Base(file) == beamChat {
			group = filepath.Base(filepath.Dir(file))
		}
		position := 0
		err := eachItem(open, file, func(n int, raw json.RawMessage) error {
			var keys map[string]json.RawMessage
			if err := json.Unmarshal(raw, &keys); err != nil {
				return err
			}
			switch {
			case keys["haystack_sessions"] != nil:
				return c.longMemEval(raw)
			case keys["qa"] != nil:
				return c.dialog(group+"-"+strconv.Itoa(n), keys)
			case keys["turns"] != nil:
				return c.beam(group, raw, &position)
			}
			return errors.New("no haystack_sessions, qa, or turns: want a conversation of LoCoMo, REALTALK, BEAM, or LongMemEval")
		})
		if err == nil && position > 0 {
			err = c.beamQuestions(group, filepath.Join(filepath.Dir(file), beamQuestions))
		}
		if err != nil {
			return nil, err
		}
	}
	c.set.enter()
	return c.set, c.set.judge(c.queries, c.qrels)
}

// eachItem calls f with each element of a file's array, or with a file's object, and with its
// number from 1. Errors state the file and the item.
func eachItem(open Open, name string, f func(n int, raw json.RawMessage) error) error {
	file, err := open(name)
	if err != nil {
		return err
	}
	limited := &io.LimitedReader{R: file, N: maxJSON + 1}
	in := bufio.NewReader(limited)
	start, err := in.ReadByte()
	for err == nil && strings.IndexByte(" \t\r\n", start) >= 0 {
		start, err = in.ReadByte()
	}
	if err == nil {
		err = in.UnreadByte()
	}
	d := json.NewDecoder(in)
	if err == nil && start == '[' {
		_, err = d.Token()
	}
	n := 0
	for err == nil && (n == 0 || start == '[') && d.More() {
		n++
		var raw json.RawMessage
		if err = d.Decode(&raw); err == nil {
			err = f(n, raw)
		}
	}
	if err == nil && start == '[' {
		_, err = d.Token()
	}
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("data after the end of the array or object")
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if limited.N == 0 {
		err = fmt.Errorf("more than %d bytes", maxJSON)
	}
	if err != nil {
		err = fmt.Errorf("%s: item %d: %w", name, max(n, 1), err)
	}
	return errors.Join(err, file.Close())
}

// add adds a message.
func (c *chats) add(group, id, conversation string, position int, role, date, text string) error {
	if id = group + "/" + id; c.ids[id] {
		return fmt.Errorf("duplicate message %q", id)
	}
	c.ids[id] = true
	fields := []metadata.Field{
		{Key: metadata.Conversation, Values: []string{conversation}},
		{Key: metadata.Position, Values: []string{strconv.Itoa(position)}},
	}
	if role != "" {
		fields = append(fields, metadata.Field{Key: metadata.Role, Values: []string{role}})
	}
	if day := dayOf(date); day != "" {
		fields = append(fields, metadata.Field{Key: metadata.Date, Values: []string{day}})
	}
	content, err := metadata.Set(text, fields...)
	if err != nil {
		return fmt.Errorf("message %q: %w", id, err)
	}
	c.set.Docs = append(c.set.Docs, Doc{id, group, crmem.Entry{Content: content, CreatedAt: created}})
	return nil
}

// ask adds a question with the messages that answer it.
func (c *chats) ask(group, id, category, text string, answers []string) error {
	if c.qrels[id] != nil {
		return fmt.Errorf("duplicate question %q", id)
	}
	grades := make(map[string]int)
	for _, a := range answers {
		grades[group+"/"+a] = 1
	}
	c.qrels[id] = grades
	c.queries = append(c.queries, Query{ID: id, Text: text, Group: group, Category: category})
	return nil
}

// dayOf returns the day in a time, which has one of the sets' forms, or "".
func dayOf(date string) string {
	for _, layout := range []string{"3:04 pm on 2 January, 2006", "02.01.2006, 15:04:05", "January-2-2006", "2006/01/02 (Mon) 15:04"} {
		if t, err := time.Parse(layout, date); err == nil {
			return t.Format(time.DateOnly)
		}
	}
	return ""
}

// dialogIDs returns the message IDs in a text: D, a session, a colon, and a message.
func dialogIDs(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r != 'D' && r != ':' && (r < '0' || r > '9') })
	return slices.DeleteFunc(words, func(w string) bool {
		session, message, _ := strings.Cut(w, ":")
		return len(session) < 2 || session[0] != 'D' || message == "" || strings.Contains(message, ":")
	})
}

// adversarial is LoCoMo's category for questions that no message answers.
const adversarial = "5"

// dialog adds a conversation of LoCoMo or REALTALK.
func (c *chats) dialog(group string, keys map[string]json.RawMessage) error {
	var questions []struct {
		Question string `json:"question"`
		Category label  `json:"category"`
		Evidence any    `json:"evidence"`
	}
	if err := json.Unmarshal(keys["qa"], &questions); err != nil {
		return fmt.Errorf("qa: %w", err)
	}
	if keys["conversation"] != nil {
		if err := json.Unmarshal(keys["conversation"], &keys); err != nil {
			return fmt.Errorf("conversation: %w", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		number, ok := strings.CutPrefix(key, "session_")
		if _, err := strconv.ParseUint(number, 10, 32); err != nil || !ok {
			continue
		}
		var turns []struct {
			Speaker string `json:"speaker"`
			ID      string `json:"dia_id"`
			Text    string `json:"text"`
			Clean   string `json:"clean_text"`
			Date    string `json:"date_time"`
		}
		var date string
		if err := json.Unmarshal(keys[key], &turns); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if raw := keys[key+"_date_time"]; raw != nil {
			if err := json.Unmarshal(raw, &date); err != nil {
				return fmt.Errorf("%s_date_time: %w", key, err)
			}
		}
		for i, t := range turns {
			if t.ID == "" {
				return fmt.Errorf("%s: message %d: no dia_id", key, i+1)
			}
			if err := c.add(group, t.ID, group+"-"+number, i+1, t.Speaker, cmp.Or(t.Date, date), t.Text+t.Clean); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	for i, q := range questions {
		var answers []string
		if q.Category != adversarial {
			answers = dialogIDs(fmt.Sprint(q.Evidence))
		}
		if err := c.ask(group, group+"/"+strconv.Itoa(i+1), string(q.Category), q.Question, answers); err != nil {
			return err
		}
	}
	return nil
}

// beam adds a batch from a BEAM chat.
func (c *chats) beam(group string, raw json.RawMessage, position *int) error {
	var batch struct {
		Turns [][]struct {
			ID      label  `json:"id"`
			Role    string `json:"role"`
			Content string `json:"content"`
			Date    string `json:"time_anchor"`
		} `json:"turns"`
	}
	if err := json.Unmarshal(raw, &batch); err != nil {
		return err
	}
	for _, m := range slices.Concat(batch.Turns...) {
		if m.ID == "" {
			return fmt.Errorf("message %d: no id", *position+1)
		}
		*position++
		text, _, _ := strings.Cut(m.Content, " ->-> ") // what follows is the number of a plan
		if err := c.add(group, string(m.ID), group, *position, m.Role, m.Date, text); err != nil {
			return err
		}
	}
	return nil
}

// beamQuestions adds a BEAM chat's questions.
func (c *chats) beamQuestions(group, file string) error {
	return eachItem(c.open, file, func(_ int, raw json.RawMessage) error {
		var questions map[string][]struct {
			Question string          `json:"question"`
			Sources  json.RawMessage `json:"source_chat_ids"`
		}
		if err := json.Unmarshal(raw, &questions); err != nil {
			return err
		}
		for _, category := range slices.Sorted(maps.Keys(questions)) {
			for i, q := range questions[category] {
				if err := c.ask(group, fmt.Sprintf("%s/%s-%d", group, category, i), category, q.Question, numbers(q.Sources)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// numbers returns the numbers in a value, in nested lists and objects, too.
func numbers(value json.RawMessage) (list []string) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return list
		}
		if n, ok := token.(json.Number); ok {
			list = append(list, n.String())
		}
	}
}

// longMemEval adds a question of LongMemEval with its sessions.
func (c *chats) longMemEval(raw json.RawMessage) error {
	var q struct {
		ID       label    `json:"question_id"`
		Type     string   `json:"question_type"`
		Question string   `json:"question"`
		Dates    []string `json:"haystack_dates"`
		Sessions [][]struct {
			Role      string `json:"role"`
			Content   string `json:"content"`
			HasAnswer bool   `json:"has_answer"`
		} `json:"haystack_sessions"`
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return err
	}
	if len(q.Dates) != len(q.Sessions) {
		return fmt.Errorf("question %q: %d haystack_dates for %d haystack_sessions", q.ID, len(q.Dates), len(q.Sessions))
	}
	group, category := string(q.ID), q.Type
	unanswered := strings.HasSuffix(group, "_abs")
	if unanswered {
		category = "abstention"
	}
	var answers []string
	for s, session := range q.Sessions {
		for i, m := range session {
			id := fmt.Sprintf("%d:%d", s+1, i+1)
			if err := c.add(group, id, fmt.Sprintf("%s-%d", group, s+1), i+1, m.Role, q.Dates[s], m.Content); err != nil {
				return err
			}
			if m.HasAnswer && !unanswered {
				answers = append(answers, id)
			}
		}
	}
	return c.ask(group, group, category, q.Question, answers)
}
