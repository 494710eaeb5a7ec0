package op

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// EntryPlace is a place in the text of an entry.
type EntryPlace struct {
	Name   string `json:"name" jsonschema:"the name of the entry, or an alias that no other entry has" op:"chars=2048"`
	Offset uint   `json:"offset,omitempty" jsonschema:"byte offset to begin at: next_offset of the previous response" op:"default=0,max=1073741824"`
	Max    int    `json:"max_bytes,omitempty" jsonschema:"at most this many bytes of the text" op:"default=32768,min=256,max=262144"`
}

// EntryPart is an entry with a part of its text.
type EntryPart struct {
	FromMemory
	crmem.EntryInfo
	Next int `json:"next_offset,omitempty" jsonschema:"offset of the next part; absent at the end of the text"`
}

var ReadPart = Add(errtable.Store, Op[Store, EntryPlace, EntryPart]{
	Name: "entries.part", Does: "Read a part of the text of an entry.", Effect: Reads, Need: NeedRead,
	Fails: []int{http.StatusConflict},
	Tool: &Tool{Name: "get_memory", Title: "Read a memory",
		Does: "Read the full text of an entry, by its name or by an alias of exactly one entry. A long text is returned in parts: call again with offset = next_offset."},
	Run: func(_ context.Context, s Store, in *EntryPlace) (out EntryPart, err error) {
		e, err := FindEntry(s.Store, in.Name)
		if err != nil {
			return out, err
		}
		if in.Offset > uint(len(e.Content)) {
			return out, &errtable.Error{Exit: errtable.ExitUsage, Kind: "invalid", Fix: "call again with offset 0",
				Message: fmt.Sprintf("offset %d: the text has %s", in.Offset, display.Size(int64(len(e.Content))))}
		}
		from := len(clip.Bytes(e.Content, int(in.Offset))) // between two characters
		part := clip.Bytes(e.Content[from:], cmp.Or(in.Max, display.MaxShownText))
		out = EntryPart{FromMemory: fromMemory, EntryInfo: shownInfo(&e)}
		out.Content = &part
		s.AddUse(&out.EntryInfo)
		if end := from + len(part); end < len(e.Content) {
			out.Next = end
		}
		return out, nil
	},
})

// NamesQuery selects a page of names.
type NamesQuery struct {
	Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor of the previous response; omit it for the first page" op:"chars=64"`
	Limit  int    `json:"limit,omitempty" jsonschema:"at most this many entries" op:"default=50,min=1,max=200"`
	Kind   string `json:"kind,omitempty" jsonschema:"only notes, or only archives of conversations" op:"words=note|archive"`
}

// NamePage is a page of entries without their texts.
type NamePage struct {
	FromMemory
	Total int                `json:"total" jsonschema:"total number of entries of that kind"`
	Items []*crmem.EntryInfo `json:"memories"`
	Next  string             `json:"next_cursor,omitempty" jsonschema:"absent on the last page"`
}

var ListNames = Add(errtable.Store, Op[Store, NamesQuery, NamePage]{
	Name: "entries.names", Does: "List entries without their texts.", Effect: Reads, Need: NeedRead,
	Tool: &Tool{Name: "list_memories", Title: "List memories",
		Does: "List the entries, oldest first, without their texts. For the next page, call again with cursor = next_cursor. To search, use recall."},
	Run: func(_ context.Context, s Store, in *NamesQuery) (NamePage, error) {
		out, size := NamePage{FromMemory: fromMemory, Items: []*crmem.EntryInfo{}}, 0
		last, err := ReadCursor(in.Cursor)
		if err != nil {
			return out, err
		}
		for e := range s.All() {
			if in.Kind != "" && e.Kind.String() != in.Kind {
				continue
			}
			out.Total++
			switch {
			case e.ID <= last || out.Next != "":
			case len(out.Items) == cmp.Or(in.Limit, 200) || size > display.MaxShownPage:
				out.Next = Cursor(last)
			default:
				one := shownInfo(&e)
				out.Items = append(out.Items, &one)
				last = e.ID
				size += EntrySize(&crmem.Entry{Name: one.Name, Aliases: one.Aliases})
			}
		}
		s.AddUse(out.Items...)
		return out, nil
	},
})

// Cursor names the last entry of a page. IDs ascend and are never reused, so that pages
// neither repeat nor miss an entry that exists throughout.
func Cursor(id uint64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("after " + strconv.FormatUint(id, 10)))
}

// ReadCursor returns the ID in a cursor, or 0 if it is empty.
func ReadCursor(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	id, found := strings.CutPrefix(string(b), "after ")
	n, perr := strconv.ParseUint(id, 10, 64)
	if err = errors.Join(err, perr); err != nil || !found {
		return 0, &errtable.Error{Exit: errtable.ExitUsage, Kind: "invalid", Err: err, Fix: "omit cursor, then pass next_cursor from each response",
			Message: "parse cursor: not issued by this server: " + display.Quoted(clip.Bytes(s, 64))}
	}
	return n, nil
}
