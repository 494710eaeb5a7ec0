package tool

import "strings"

// Memory is the permitted spaces and sessions of a scope. The zero value permits no
// space and no session.
type Memory struct {
	// Reads and Writes list spaces. A list of all spaces selects those of the agent.
	Reads, Writes List
	// Sessions lists the identities whose sessions session_search finds. A list of
	// all identities selects those of admins.
	Sessions List
	// MaxEntries and MaxBytes limit the space that remember writes. 0 is no limit.
	MaxEntries, MaxBytes int
}

// AllMemory returns the Memory without restrictions.
func AllMemory() Memory {
	return Memory{Reads: Everything(), Writes: Everything(), Sessions: Everything()}
}

// Intersect returns the spaces and sessions that both permit, and the smaller
// limits.
func (m Memory) Intersect(n Memory) Memory {
	return Memory{
		Reads: m.Reads.Intersect(n.Reads), Writes: m.Writes.Intersect(n.Writes), Sessions: m.Sessions.Intersect(n.Sessions),
		MaxEntries: smaller(m.MaxEntries, n.MaxEntries), MaxBytes: smaller(m.MaxBytes, n.MaxBytes),
	}
}

// smaller returns the smaller of two limits. 0 is no limit.
func smaller(a, b int) int {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// without returns the memory tools to which m permits no space and no session.
func (m Memory) without() []string {
	var list []string
	if m.Reads.empty() {
		list = append(list, Recall)
	}
	if m.Writes.empty() {
		list = append(list, Forget, Remember)
	}
	if m.Sessions.empty() {
		list = append(list, SessionSearch)
	}
	return list
}

// ReadSpaces returns the spaces that recall searches. own are those of the agent.
func (s Scope) ReadSpaces(own []string) ([]string, error) {
	if s.Memory.Reads.All() {
		return own, nil
	}
	if names := s.Memory.Reads.Names(); len(names) > 0 {
		return names, nil
	}
	return nil, &Violation{Kind: "space", Name: strings.Join(own, ", ")}
}

// WriteSpace returns the space of remember and forget. own is that of the agent.
func (s Scope) WriteSpace(own string) (string, error) {
	if s.Memory.Writes.All() {
		return own, nil
	}
	if names := s.Memory.Writes.Names(); len(names) == 1 {
		return names[0], nil
	}
	return "", &Violation{Kind: "space", Name: own}
}
