package agent

import (
	"fmt"
	"strings"
)

// The marker of an agent with a role contains the newest summaries, each of the messages
// between two markers. Their headings name the archives. A heading in a text of a model
// gets another level.
const (
	maxStacked   = 6
	stackBegins  = "Summaries of the conversation so far. The newest is the last."
	stackHeading = "\n\n## Summary "
)

// stackedOne is a summary with the name of its archive.
type stackedOne struct{ name, text string }

// archiveName returns the n-th archive's name.
func archiveName(s *Session, n int) string {
	id := "session"
	if s.Log != nil {
		id = s.Log.ID()
	}
	return fmt.Sprintf("%s-%d", id, n)
}

// stacked returns the n-th marker's text: the summaries in earlier, the marker before, and then
// text. It omits the oldest ones to have at most room bytes, and cuts text if that is not
// enough.
func stacked(s *Session, earlier string, n int, text string, room int) string {
	list := parseStack(earlier)
	if len(list) == 0 && earlier != "" {
		list = []stackedOne{{archiveName(s, n-1), earlier}}
	}
	text = strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n## Summary ", "\n### Summary "), "\n")
	list = append(list, stackedOne{archiveName(s, n), cut(text, max(0, room))})
	for len(list) > 1 && (len(list) > maxStacked || len(joinStack(s, n, list)) > room) {
		list = list[1:]
	}
	return joinStack(s, n, list)
}

func joinStack(s *Session, n int, list []stackedOne) string {
	var b strings.Builder
	b.WriteString(stackBegins)
	switch older := n - len(list); {
	case older == 1:
		b.WriteString(" An older one is the archive " + archiveName(s, 1) + ".")
	case older > 1:
		fmt.Fprintf(&b, " Older ones are the archives %s to %s.", archiveName(s, 1), archiveName(s, older))
	}
	for _, one := range list {
		b.WriteString(stackHeading + one.name + "\n\n" + strings.TrimSpace(one.text))
	}
	return b.String()
}

// parseStack returns the summaries in a marker, or nil if the marker has one text.
func parseStack(marker string) (list []stackedOne) {
	if !strings.HasPrefix(marker, stackBegins) {
		return nil
	}
	for _, part := range strings.Split(marker, stackHeading)[1:] {
		name, text, _ := strings.Cut(part, "\n\n")
		list = append(list, stackedOne{name, text})
	}
	return list
}

// NewestSummary returns the newest summary in the marker of an agent with a role. ok is
// false for another marker.
func NewestSummary(marker string) (text string, ok bool) {
	list := parseStack(marker)
	if len(list) == 0 {
		return "", false
	}
	return list[len(list)-1].text, true
}
