package search

import (
	"cmp"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Classes of documents, and roles of places. Class 0 contains all roles without
// their own class.
const (
	classOther = iota
	classUser
	classAssistant
	classTool
	classSystem
	classDeveloper
	classCompact
	classSession
	classes
)

// Roles of hits that are no messages.
const (
	RoleCompact = "compact" // the summary of a compaction
	RoleSession = "session" // title, agent and sender of a session
)

var classNames = [classes]string{
	classUser: record.RoleUser, classAssistant: record.RoleAssistant, classTool: record.RoleTool, classSystem: record.RoleSystem,
	classDeveloper: "developer", classCompact: RoleCompact, classSession: RoleSession,
}

// classOf returns the class of a message's role.
func classOf(role []byte) uint16 {
	for c := uint16(classUser); c <= classDeveloper; c++ {
		if string(role) == classNames[c] {
			return c
		}
	}
	return classOther
}

// Limits of stored texts, in bytes, because other programs may write texts of
// any length.
const (
	maxRole   = 64
	maxParty  = 1 << 10 // agent, sender
	maxOthers = 256     // roles without a class, of one session
)

// A place is the position of a message or a summary in a file. Each has a
// place, whether it is a document or not, so that windows show the messages
// around a hit.
type place struct {
	offset int64  // of its line
	line   uint32 // its number, from 1
	// role is a class, or classes and more: entry.others from the first.
	role  uint16
	marks marks
	asks  analysis.TermSet // its questions' terms
}

// marks are properties of a place.
type marks uint8

const (
	markDoc   marks = 1 << iota // it is a document
	markGlued                   // it is a piece of a bad line with a separate offset
	markSays                    // it is a message with content, not only with calls
)

func (p place) doc() bool   { return p.marks&markDoc != 0 }
func (p place) glued() bool { return p.marks&markGlued != 0 }
func (p place) says() bool  { return p.marks&markSays != 0 }

// An entry is a session in the index.
type entry struct {
	ord    uint32 // part of its documents' IDs; never reused
	name   string // of the file
	id     string
	shaped bool // the name contains the id

	agent, sender string // their first maxParty bytes
	workspace     string // its first maxParty bytes
	created       time.Time
	modified      time.Time // last write that the index knows of
	ended         time.Time // last message of an imported session; zero if unknown
	titles        titles    // as of pos
	title         string    // with the torn tail

	places []place
	others []string // roles without a class, their first maxRole bytes
	counts counts

	pos  position
	tail int   // places after pos: they are read again with the next lines
	size int64 // of the file, with its torn tail

	// mtime and ident are the file's when it had that size; zero when it was
	// this process that wrote.
	mtime time.Time
	ident vfs.Identity
}

// newEntry creates an entry of a file whose first part r has read, without that
// part.
func (x *Index) newEntry(r *indexReader, f listed) *entry {
	m := r.meta
	if m == nil {
		m = &line.Meta{}
	}
	e := &entry{name: f.name}
	e.id, e.shaped = x.folder.ID(f.name, m)
	e.agent = strings.Clone(clip.Bytes(m.Agent, maxParty))
	e.sender = strings.Clone(clip.Bytes(m.CreatedBy, maxParty))
	e.workspace = strings.Clone(clip.Bytes(m.Workspace, maxParty))
	e.created, _ = m.Created()
	if end, ok := m.End(); ok {
		e.ended = end
	}
	return e
}

// parties are the numbers of a session's agent and sender; zero if the session
// was removed.
type parties struct{ agent, sender uint32 }

// number returns the number of an agent or a sender. The caller holds mu.
func (x *Index) number(party string) uint32 {
	n, ok := x.numbers[party]
	if !ok {
		n = uint32(len(x.numbers)) + 1
		x.numbers[party] = n
	}
	return n
}

// insert appends an entry. The caller holds mu.
func (x *Index) insert(e *entry) {
	e.ord = uint32(len(x.entries))
	x.ordered = len(x.entries) == 0 || x.ordered && x.newest.compare(e) < 0
	x.newest = e
	x.entries = append(x.entries, e)
	x.parties = append(x.parties, parties{x.number(e.agent), x.number(e.sender)})
	x.byName[e.name] = e
}

// compare is the order in which sessions were created. Of hits with equal scores
// the last is first.
func (e *entry) compare(other *entry) int {
	return cmp.Or(e.created.Compare(other.created), cmp.Compare(len(e.id), len(other.id)),
		cmp.Compare(e.id, other.id), cmp.Compare(e.name, other.name))
}

// take adds the places that r has read. After it no places are after pos.
func (e *entry) take(r *indexReader) {
	e.places = append(e.places, r.places...)
	for _, t := range r.texts {
		e.counts[t.class]++
	}
	e.others = r.others
	e.titles, e.title = r.titles, r.title
	e.pos, e.tail = r.pos, r.tail
}

// head is the text of the document of the session itself.
func (e *entry) head() string { return e.title + "\n" + e.agent + "\n" + e.sender }

// doc returns the ID of the document at a place; place -1 is the session. Newer
// documents have smaller IDs, because equal scores rank by ascending ID.
func (e *entry) doc(place int) uint64 { return ^(uint64(e.ord)<<32 | uint64(place+1)) }

// fields returns the indexed texts of a message or a summary: as of an entry of a store
// that is a message, also the day and the author's name. The caller holds mu.
func (x *Index) fields(e *entry, at int, texts ...string) []string {
	p := e.places[at]
	if !p.says() || x.analyzer == analysis.Plain {
		return texts
	}
	day, author := "", ""
	if !e.created.IsZero() {
		day = e.created.UTC().Format(time.DateOnly)
	}
	if p.role >= classes {
		author = roleName(p.role, e.others)
	}
	return append(slices.Clip(texts), day, author)
}

// placeOf returns the ordinal and the place of a document.
func placeOf(id uint64) (ord uint64, place int) { return ^id >> 32, int(uint32(^id)) - 1 }

// roleName returns the role of a place, or "" for a role beyond maxOthers.
func roleName(r uint16, others []string) string {
	if r < classes {
		return classNames[r]
	}
	if i := int(r - classes); i < len(others) {
		return others[i]
	}
	return ""
}

// current reports whether the file is unchanged since it was read.
func (e *entry) current(f listed) bool {
	return !e.mtime.IsZero() && e.mtime.Equal(f.mtime) && e.size == f.size && e.ident == f.ident
}

// A position is the end of the read part of a file, with data to recognize the
// file.
type position struct {
	end   int64 // after a \n
	lines int64 // that end before it
	first sample
	last  sample
}

// A sample is the checksum of at most maxSample bytes of a file.
type sample struct {
	at  int64
	n   int
	sum uint32
}

const maxSample = 1 << 10

func takeSample(b []byte, at int64) sample {
	return sample{at, len(b), crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))}
}

func (s sample) matches(f io.ReaderAt) bool {
	b := make([]byte, s.n)
	n, _ := f.ReadAt(b, s.at)
	return n == len(b) && takeSample(b, s.at) == s
}

// titles are where a session's title may come from (S13).
type titles struct {
	line1       string
	last        string // of the last meta record
	recorded    bool   // such a record exists
	inContext   bool   // without a marker after it
	afterMarker bool   // a record is after the last marker
}

func (t *titles) title() string {
	if t.recorded && (t.inContext || !t.afterMarker) {
		return t.last
	}
	return t.line1
}
