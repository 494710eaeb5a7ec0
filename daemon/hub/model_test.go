package hub

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// someSequences is the number of sequences of TestSequences. The environment variable
// CRABMEM_HUB_SEQUENCES sets another one.
const someSequences = 100

// gitSequences is the share of sequences that use git: one in so many. The others take the
// packages from the model.
const gitSequences = 20

// A published is a resource of a source in the model: its version, and its files.
type published struct {
	typ, version string
	files        map[string]string
}

func (p published) pkg(source, name string) *Package {
	of := &Package{Resource: Resource{Manifest: Manifest{Name: name, Type: p.typ, Version: p.version}, Source: source}}
	for _, file := range slices.Sorted(maps.Keys(p.files)) {
		of.Files = append(of.Files, File{Path: file, Data: []byte(p.files[file])})
	}
	return of
}

// A modelWorld is a root with sources, and what the model expects.
type modelWorld struct {
	t       *testing.T
	rand    *rand.Rand
	root    *Root
	hub     *Hub // nil: without git
	remotes map[string]remote
	n       int // of the last text
	did     map[string]int

	remote, copies map[string]map[string]published // by source and name
	installed      map[string]string               // source and version by name
	listed         map[string]map[string]string    // files of the entry by name
	files          map[string]string               // on disk, without the lock
}

var modelTypes = map[string]string{"x": Skill, "y": Skill, "z": MCP}

// push publishes a new version, or other files of the same one, and drops the old commit.
func (w *modelWorld) push(source string) {
	w.n++
	all := maps.Clone(w.remote[source])
	name := []string{"x", "y", "z"}[w.rand.IntN(3)]
	next := published{typ: modelTypes[name], version: strconv.Itoa(w.n), files: map[string]string{}}
	if old, ok := all[name]; ok && w.rand.IntN(3) == 0 {
		next.version = old.version
	}
	if next.typ == MCP {
		next.files[name+".toml"] = fmt.Sprintf("command = \"c%d\"\n", w.n)
	} else {
		next.files["SKILL.md"] = skillText(name, strconv.Itoa(w.n))
		for range w.rand.IntN(3) {
			next.files[[]string{"a", "b/c", "b/d"}[w.rand.IntN(3)]] = strconv.Itoa(w.n)
		}
	}
	if all[name] = next; w.rand.IntN(8) == 0 {
		delete(all, name)
	}
	w.remote[source] = all
	if w.hub == nil {
		return
	}
	list := []string{"README.md", ""}
	for name, p := range all {
		list = append(list, dirs[p.typ]+"/"+name+".toml", manifest(p.typ, name, p.version, ""))
		for file, text := range p.files {
			list = append(list, dirs[p.typ]+"/"+name+"/"+file, text)
		}
	}
	w.remotes[source].push(w.t, "main", list...)
}

// update synchronizes a source, and removes it once in a while.
func (w *modelWorld) update(source string) {
	if w.rand.IntN(6) == 0 {
		delete(w.copies, source)
		if w.hub != nil {
			if err := w.hub.Forget(source); err != nil {
				w.t.Fatal(err)
			}
		}
		return
	}
	w.copies[source] = w.remote[source]
	if w.hub != nil {
		if err := w.hub.Update(context.Background(), w.remotes[source].source(source)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// of returns the files of a resource on disk, relative to it.
func (w *modelWorld) of(name string) map[string]string {
	got, top := make(map[string]string), path.Join(managed, unit(modelTypes[name], name))
	for file, text := range w.files {
		if rel, ok := strings.CutPrefix(file, top); ok {
			got[strings.TrimPrefix(rel, "/")] = text
		}
	}
	return got
}

func relative(p published) map[string]string {
	if p.typ != Skill {
		for _, text := range p.files {
			return map[string]string{"": text}
		}
	}
	return p.files
}

// install installs a resource in the model and the root.
func (w *modelWorld) install(source, name string, how How) {
	p, ok := w.copies[source][name]
	entry, had := w.installed[name]
	old := w.of(name)
	allowed := ok
	switch from, _, _ := strings.Cut(entry, " "); {
	case !ok, how == Force, !had && len(old) == 0:
	case !had:
		allowed = maps.Equal(old, relative(p))
	default:
		allowed = how == Upgrade && from == source && maps.Equal(old, w.listed[name])
	}
	var err error
	pkg := p.pkg(source, name)
	if w.hub != nil {
		pkg, _, err = fetch(w.hub, source+"/"+name)
	} else if !ok {
		err = os.ErrNotExist
	}
	if err == nil {
		err = w.root.Install(pkg, how)
	}
	if (err == nil) != allowed {
		w.t.Fatalf("install %s/%s, %v: got %v, allowed %v", source, name, how, err, allowed)
	}
	if !allowed {
		return
	}
	w.did["installed"]++
	top := path.Join(managed, unit(modelTypes[name], name))
	for rel := range old {
		delete(w.files, path.Join(top, rel))
	}
	for rel, text := range relative(p) {
		w.files[path.Join(top, rel)] = text
	}
	w.installed[name], w.listed[name] = source+" "+p.version, relative(p)
}

// remove removes a resource in the model and the root.
func (w *modelWorld) remove(name string) {
	_, had := w.installed[name]
	kept, err := w.root.Remove(name)
	if (err == nil) != had {
		w.t.Fatalf("remove %s: got %v, installed %v", name, err, had)
	}
	if !had {
		return
	}
	w.did["removed"]++
	top := path.Join(managed, unit(modelTypes[name], name))
	var want []string
	for rel, text := range w.of(name) {
		if at := path.Join(top, rel); w.listed[name][rel] == text {
			delete(w.files, at)
		} else {
			want = append(want, at)
		}
	}
	slices.Sort(want)
	if !slices.Equal(kept, want) {
		w.t.Fatalf("remove %s: kept %v, want %v", name, kept, want)
	}
	delete(w.installed, name)
	delete(w.listed, name)
}

// edit changes, adds, or removes a file of a resource, as a person does.
func (w *modelWorld) edit(name string) {
	list := slices.Sorted(maps.Keys(w.of(name)))
	if len(list) == 0 {
		return
	}
	w.n++
	file, text := path.Join(managed, unit(modelTypes[name], name), list[w.rand.IntN(len(list))]), fmt.Sprint("edit ", w.n)
	switch op := w.rand.IntN(3); {
	case op == 0:
		delete(w.files, file)
		// A directory without files is no installed resource.
		for err := w.root.FS.Remove(w.root.Dir + "/" + file); err == nil; {
			file = path.Dir(file)
			err = w.root.FS.Remove(w.root.Dir + "/" + file)
		}
		return
	case op == 1 && modelTypes[name] == Skill:
		file = path.Join(managed, unit(Skill, name), "note")
	}
	w.files[file] = text
	if err := vfs.WriteFile(w.root.FS, w.root.Dir+"/"+file, 0o644, []byte(text)); err != nil {
		w.t.Fatal(err)
	}
}

// check compares the root with the model.
func (w *modelWorld) check(after string) {
	got := make(map[string]string)
	if w.hub == nil {
		got = memFiles(w.t, w.root.FS, w.root.Dir)
	} else {
		for name, text := range tree(w.t, w.root.Dir) {
			_, got[name], _ = strings.Cut(text, " ")
		}
	}
	delete(got, LockFile)
	if !maps.Equal(got, w.files) {
		w.t.Fatalf("after %s: files %q\nwant %q", after, got, w.files)
	}
	list, err := w.root.Installed()
	entries := make(map[string]string)
	for _, e := range list {
		entries[e.Name] = e.Source + " " + e.Version
	}
	if err != nil || !maps.Equal(entries, w.installed) {
		w.t.Fatalf("after %s: installed %v, want %v; %v", after, entries, w.installed, err)
	}
}

// TestSequences plays random sequences of publishing, forced pushes, and commands, and edits of
// a person, against a model.
func TestSequences(t *testing.T) {
	gate.Needs(t, "git")
	count := someSequences
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_HUB_SEQUENCES")); err == nil {
		count = n
	}
	did := make(map[string]int)
	for seed := range count {
		w := &modelWorld{t: t, did: did, rand: rand.New(rand.NewPCG(uint64(seed), 1)), root: &Root{FS: faultfs.NewMem(), Dir: crashDir}, remotes: map[string]remote{},
			remote: map[string]map[string]published{"a": {}, "b": {}}, copies: map[string]map[string]published{}, installed: map[string]string{}, listed: map[string]map[string]string{}, files: map[string]string{}}
		if seed%gitSequences == 0 {
			w.hub, w.root = &Hub{FS: vfs.OS{}, Home: temp(t)}, &Root{FS: vfs.OS{}, Dir: temp(t)}
			for _, name := range []string{"a", "b"} {
				w.remotes[name] = newRemote(t)
				w.remotes[name].push(t, "main", "README.md", "")
				w.hub.Sources = append(w.hub.Sources, w.remotes[name].source(name))
			}
		}
		if err := vfs.MkdirAll(w.root.FS, w.root.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{"a", "b", "a", "b", "a", "b"} {
			w.push(source)
		}
		for _, source := range []string{"a", "b"} {
			w.update(source)
		}
		steps := 60
		if w.hub != nil {
			steps = 15
		}
		for step := range steps {
			source, name := []string{"a", "b"}[w.rand.IntN(2)], []string{"x", "y", "z"}[w.rand.IntN(3)]
			var does string
			switch w.rand.IntN(11) {
			case 0, 1:
				does = "push " + source
				w.push(source)
			case 2:
				does = "update " + source
				w.update(source)
			case 3, 4, 5, 6:
				how := How(w.rand.IntN(3))
				does = fmt.Sprintf("install %s/%s %v", source, name, how)
				w.install(source, name, how)
			case 7, 8:
				does = "remove " + name
				w.remove(name)
			case 9, 10:
				does = "edit " + name
				w.edit(name)
			}
			verb, _, _ := strings.Cut(does, " ")
			did[verb]++
			w.check(fmt.Sprintf("seed %d, step %d, %s", seed, step, does))
		}
	}
	t.Logf("%d sequences: %v", count, did)
}
