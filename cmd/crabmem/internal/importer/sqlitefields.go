package importer

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"crabmem/crmem/metadata"
	"crabmem/sessionlog/foreign"
)

// noteField is a value of a database that becomes metadata.
type noteField struct {
	metadata.Field        // without a key if it can only be a line
	line           string // in place of the field, after the text
}

// fieldLines returns the fields as lines.
func fieldLines(fields []noteField) string {
	var lines []string
	for _, f := range fields {
		if f.line != "" {
			lines = append(lines, f.line)
		}
	}
	return strings.Join(lines, "\n")
}

// setFields sets the text of a note, and its metadata. What metadata cannot contain
// follows the text, a line each.
func (n *Note) setFields(text string, fields []noteField) {
	content := trimEnd(text)
	var rest []noteField
	for _, f := range fields {
		m, _, _ := metadata.Parse(content)
		set, err := "", metadata.ErrInvalid
		if f.Key != metadata.Adopted && len(m.Values(f.Key)) == 0 && content != "" {
			set, err = metadata.Set(content, f.Field)
		}
		if err != nil {
			rest = append(rest, f)
			continue
		}
		content = set
	}
	n.Text = joined(content, fieldLines(rest))
}

// fields returns the columns with a value. A column may have the form COLUMN=KEY.
func (d *databaseReader) fields(o object, columns ...string) (list []noteField) {
	for _, c := range columns {
		c, key, renamed := strings.Cut(c, "=")
		if !renamed {
			key = c
		}
		s := d.list(o, c)
		if s == "" {
			continue
		}
		s = oneLine(s)
		f := noteField{metadata.Field{Key: key, Values: []string{s}}, c + ": " + s}
		if v := d.cell(o, c); foreign.JSONType([]byte(v)) == "array" && json.Valid([]byte(v)) {
			f.setList(json.RawMessage(v))
		}
		list = append(list, f)
	}
	return list
}

// setList sets the values to those of a JSON array. If they are not all scalars, the
// field can only be a line.
func (f *noteField) setList(raw json.RawMessage) {
	f.List, f.Values = true, nil
	for _, v := range as[[]json.RawMessage](raw) {
		if t := foreign.JSONType(v); t == "object" || t == "array" {
			f.Key = ""
			return
		}
		f.add(plain(v))
	}
	if len(f.Values) == 0 {
		f.Key = ""
	}
}

// add adds a value of a list, once.
func (f *noteField) add(s string) {
	if s = strings.TrimSpace(oneLine(s)); s != "" && !slices.Contains(f.Values, s) {
		f.Values = append(f.Values, s)
	}
}

// oneLine returns a text with spaces in place of control characters, if it has one.
func oneLine(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return strings.Join(strings.Fields(s), " ")
	}
	return s
}

// walrusKeys are the keys of the column metadata that crabmem names in another way.
var walrusKeys = map[string]string{
	"memory_type": metadata.Type, "tag": metadata.Tags, "links": metadata.Related, "link": metadata.Related,
	"related_to": metadata.Related, "relations": metadata.Related,
}

// metadata returns the keys of the column metadata.
func (d *databaseReader) metadata(o object) (list []noteField) {
	m, err := parseObject([]byte(d.cell(o, "metadata")))
	if err != nil {
		return d.fields(o, "metadata=")
	}
	for _, k := range m.keys() {
		f := noteField{metadata.Field{Key: k}, "metadata." + k + ": " + inLine(m[k])}
		if key := walrusKeys[k]; key != "" && !says(m[key]) {
			f.Key = key
		}
		switch text := plain(m[k]); foreign.JSONType(m[k]) {
		case "array":
			f.setList(m[k])
		case "object":
			f.Key = ""
		default:
			if f.List = f.Key == metadata.Tags && strings.Contains(text, ","); !f.List {
				f.add(text)
				break
			}
			for tag := range strings.SplitSeq(text, ",") {
				f.add(tag)
			}
		}
		if slices.Contains(metadata.Relations, f.Key) {
			f.link()
		}
		list = append(list, f)
	}
	return list
}

// link makes links of the values of a relation.
func (f *noteField) link() {
	for i, v := range f.Values {
		if strings.Contains(v, "[[") {
			continue
		}
		link, err := metadata.LinkTo(v)
		if err != nil {
			f.Key = ""
			return
		}
		f.Values[i] = link
	}
}

// relation is an association of a memory of Spacebot.
type relation struct{ kind, name, target string }

func (r relation) line() string { return "- " + r.kind + " → " + r.name }

// relationKeys are the kinds of associations that crabmem names in another way. Other
// kinds stay, and their links have the meaning of related.
var relationKeys = map[string]string{
	"related_to": metadata.Related, "updates": metadata.Supersedes, "supersedes": metadata.Supersedes, "caused_by": metadata.CausedBy,
	"result_of": metadata.CausedBy, "contradicts": metadata.Contradicts, "part_of": metadata.PartOf,
}

// relationFields returns a field for each kind of associations.
func relationFields(relations []relation) (list []noteField) {
	relations = slices.Clone(relations)
	slices.SortFunc(relations, func(a, b relation) int { return strings.Compare(a.line(), b.line()) })
	for _, r := range relations {
		key := strings.ToLower(r.kind)
		if known := relationKeys[key]; known != "" {
			key = known
		}
		i := slices.IndexFunc(list, func(f noteField) bool { return f.Key == key })
		if i < 0 {
			i = len(list)
			list = append(list, noteField{Field: metadata.Field{Key: key}})
		}
		f := &list[i]
		if link, err := metadata.LinkTo(r.target); err == nil {
			f.add(link)
		} else {
			f.Key = ""
		}
		f.List = len(f.Values) > 1
		f.line = strings.TrimPrefix(f.line+"\n"+r.line(), "\n")
	}
	return list
}
