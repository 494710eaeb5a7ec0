package tool

import "encoding/json"

// listJSON and scopeJSON are the stored forms of a List and a Scope.
type listJSON struct {
	All    bool     `json:"all,omitempty"`
	Names  []string `json:"names,omitempty"`
	Except []string `json:"except,omitempty"`
}

type remoteJSON struct {
	Names []string `json:"names,omitempty"`
	Rest  bool     `json:"rest,omitempty"`
}

type scopeJSON struct {
	Tools        List         `json:"tools"`
	Skills       List         `json:"skills"`
	MCPs         List         `json:"mcps"`
	Members      List         `json:"members"`
	Instructions List         `json:"instructions"`
	Confined     bool         `json:"confined,omitempty"`
	TextOnly     bool         `json:"text_only,omitempty"`
	Reads        List         `json:"reads"`
	Writes       List         `json:"writes"`
	Sessions     List         `json:"sessions"`
	MaxEntries   int          `json:"max_entries,omitempty"`
	MaxBytes     int          `json:"max_bytes,omitempty"`
	Listed       []string     `json:"listed,omitempty"`
	Remote       []remoteJSON `json:"remote,omitempty"`
}

// MarshalJSON returns the stored form.
func (l List) MarshalJSON() ([]byte, error) { return json.Marshal(listJSON{l.all, l.names, l.except}) }

// UnmarshalJSON decodes the stored form.
func (l *List) UnmarshalJSON(b []byte) error {
	var v listJSON
	err := json.Unmarshal(b, &v)
	*l = List{v.All, v.Names, v.Except}
	return err
}

// MarshalJSON returns the stored form.
func (s Scope) MarshalJSON() ([]byte, error) {
	v := scopeJSON{s.Tools, s.Skills, s.MCPs, s.Members, s.Instructions, s.Confined, s.TextOnly,
		s.Memory.Reads, s.Memory.Writes, s.Memory.Sessions, s.Memory.MaxEntries, s.Memory.MaxBytes, s.listed, nil}
	for _, r := range s.remote {
		v.Remote = append(v.Remote, remoteJSON{r.names, r.rest})
	}
	return json.Marshal(v)
}

// UnmarshalJSON decodes the stored form. A missing key permits no name.
func (s *Scope) UnmarshalJSON(b []byte) error {
	var v scopeJSON
	err := json.Unmarshal(b, &v)
	*s = Scope{v.Tools, v.Skills, v.MCPs, v.Members, v.Instructions, v.Confined, v.TextOnly,
		Memory{v.Reads, v.Writes, v.Sessions, v.MaxEntries, v.MaxBytes}, v.Listed, nil}
	for _, r := range v.Remote {
		s.remote = append(s.remote, remoteList{r.Names, r.Rest})
	}
	return err
}
