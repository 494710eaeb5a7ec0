package mcpserver

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/fuzz/race"
)

// TestWorstEntries writes the largest content, in characters that JSON lengthens, and
// reads, lists, and searches it. The aliases of the entry are the largest, too. Without
// CRABMEM_WORST, it writes what JSON lengthens most, and reads the first part.
func TestWorstEntries(t *testing.T) {
	race.Skip(t)
	characters := []string{"\x01", "\n", `"`, "<", "\u2028"}
	all := os.Getenv("CRABMEM_WORST") != ""
	if !all {
		characters = characters[:1]
	}
	dir := t.TempDir()
	for i, c := range characters {
		e := crmem.Entry{Name: fmt.Sprint("worst ", i), Content: "before"}
		for n := range crmem.MaxAliases {
			begin := fmt.Sprintf("%d %04d ", i, n)
			e.Aliases = append(e.Aliases, begin+strings.Repeat(c, (crmem.MaxName-len(begin))/len(c)))
		}
		fill(t, dir, e)
	}
	s := serve(t, dir)
	for i, c := range characters {
		name, query := fmt.Sprint("worst ", i), []string{"canary", "zebra", "quartz", "maple", "tundra"}[i]
		content := query + " " + strings.Repeat(c, (crmem.MaxContent-len(query)-1)/len(c))
		must[struct{}](t, s, "remember", dict{"name": name, "content": content})
		var b strings.Builder
		for offset := 0; ; {
			g, _ := must[struct {
				Content string `json:"content"`
				Next    int    `json:"next_offset"`
			}](t, s, "get_memory", dict{"name": name, "offset": offset, "max_bytes": display.MaxShownText})
			b.WriteString(g.Content)
			if offset = g.Next; offset == 0 || !all {
				break
			}
		}
		if want := content; all && b.String() != want || !strings.HasPrefix(want, b.String()) || b.Len() == 0 {
			t.Errorf("entry %d: the parts have %d bytes, want %d", i, b.Len(), len(content))
		}
		found, _ := must[struct {
			Hits []struct {
				Name    string   `json:"name"`
				Aliases []string `json:"aliases"`
			} `json:"hits"`
		}](t, s, "recall", dict{"query": query})
		if len(found.Hits) != 1 || found.Hits[0].Name != name || len(found.Hits[0].Aliases) == 0 {
			t.Errorf("entry %d: recall: %.200v", i, fmt.Sprint(found))
		}
	}
	list, _ := must[struct {
		Total    int `json:"total"`
		Memories []struct {
			Bytes int `json:"bytes"`
		} `json:"memories"`
	}](t, s, "list_memories", dict{})
	if list.Total != len(characters) || len(list.Memories) != len(characters) || list.Memories[0].Bytes < crmem.MaxContent-8 {
		t.Errorf("list: %+v", list)
	}
}
