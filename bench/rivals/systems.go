//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// session is a running program that writes and searches.
type session struct {
	add    func(note) error                   // returns when the program acknowledges
	search func(words string) (string, error) // returns at most 5 hits, each with the name of its note
	stop   func()                             // kill -9
}

// system is a memory that the rows measure. Each function works in an empty home
// directory that the row made.
type system struct {
	name    string
	version func() string
	size    []string // installed files and directories
	needs   string
	// open starts the server that an agent starts. wrap is a prefix of its command.
	open func(home string, wrap ...string) (*session, error)
	// read returns all texts, read by a new process.
	read func(home string) (string, error)
	// check runs the program's own check of a store, if it has one.
	check func(home string) error
	// stores are patterns of the files that contain the notes, in home.
	stores []string
	// history changes and removes a note, and looks for its earlier texts.
	history func(home string) (string, error)
	// copy writes all notes to files, and loads them into the empty home to.
	copy func(home, to string) error
}

// environment returns the environment of programs: an empty HOME, and no telemetry.
func environment(home string, more ...string) []string {
	return append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TMPDIR=" + os.TempDir(), "DO_NOT_TRACK=1", "NO_COLOR=1"}, more...)
}

// systems returns the systems to measure: Engram only if ENGRAM names its program.
func systems(tools string) []system {
	list := []system{crabmem(tools), claudeFile(), basicMemory(tools), claudeMem(tools), mem0(tools)}
	if program := os.Getenv("ENGRAM"); program != "" {
		list = append(list, engram(program))
	}
	return list
}

// first returns the last word of the first line that a command prints.
func first(argv ...string) func() string {
	return func() string {
		out, err := run(os.TempDir(), environment(os.TempDir()), argv...)
		if f := strings.Fields(out); err == nil && len(f) > 0 {
			return f[len(f)-1]
		}
		return fmt.Sprintf("unknown (%v)", err)
	}
}

func crabmem(tools string) system {
	program := filepath.Join(tools, "crabmem", "crabmem")
	env := func(home string) []string { return environment(home) }
	return system{
		name: "crabmem", version: func() string { return "this revision" }, size: []string{program}, needs: "one binary",
		open: func(home string, wrap ...string) (*session, error) {
			p, err := mcp(home, env(home), append(wrap, program, "mcp"))
			if err != nil {
				return nil, err
			}
			return &session{
				add: func(n note) error {
					_, err := p.tool("remember", map[string]any{"name": n.name, "content": n.text})
					return err
				},
				search: func(words string) (string, error) {
					return p.tool("recall", map[string]any{"query": words, "limit": 5})
				},
				stop: p.stop,
			}, nil
		},
		read:   func(home string) (string, error) { return run(home, env(home), program, "export") },
		check:  func(home string) error { _, err := run(home, env(home), program, "verify"); return err },
		stores: []string{".crabtalk/memory.db*"},
		history: func(home string) (string, error) {
			var after string
			for _, argv := range [][]string{{"remember", "a", "the first text"}, {"remember", "a", "the second text"}, {"undo"}} {
				if _, err := run(home, env(home), append([]string{program}, argv...)...); err != nil {
					return "", err
				}
			}
			before, err := run(home, env(home), program, "show", "a")
			if err == nil {
				_, err = run(home, env(home), program, "forget", "a")
			}
			if err == nil {
				_, err = run(home, env(home), program, "restore", "a")
			}
			if err == nil {
				after, err = run(home, env(home), program, "show", "a")
			}
			return fmt.Sprintf("undo a change: %q; restore after forget: %q", strings.TrimSpace(before), strings.TrimSpace(after)), err
		},
		copy: func(home, to string) error {
			if _, err := run(home, env(home), program, "dump", "pages"); err != nil {
				return err
			}
			_, err := run(to, env(to), program, "load", filepath.Join(home, "pages"))
			return err
		},
	}
}

// claudeFile is a Markdown file that the agent reads at the start. The shell appends to it.
func claudeFile() system {
	file := func(home string) string { return filepath.Join(home, "CLAUDE.md") }
	read := func(home string) (string, error) { b, err := os.ReadFile(file(home)); return string(b), err }
	return system{
		name: "a CLAUDE.md file", version: func() string { return "–" }, needs: "a text editor",
		open: func(home string, wrap ...string) (*session, error) {
			return &session{
				add: func(n note) error {
					_, err := run(home, environment(home), append(wrap, "sh", "-c", `echo "- $1: $2" >>CLAUDE.md`, "sh", n.name, n.text)...)
					return err
				},
				search: func(string) (string, error) { return read(home) }, // the agent reads all of it
				stop:   func() {},
			}, nil
		},
		read: read, stores: []string{"CLAUDE.md"},
		copy: func(home, to string) error {
			b, err := os.ReadFile(file(home))
			if err != nil {
				return err
			}
			return os.WriteFile(file(to), b, 0o600)
		},
	}
}

// overMCP starts an MCP server whose tools take a note as title and content, and a search as
// query, next to the other arguments.
func overMCP(home string, env, argv []string, add string, addArgs map[string]any, search string, searchArgs map[string]any) (*session, error) {
	p, err := mcp(home, env, argv)
	if err != nil {
		return nil, err
	}
	return &session{
		add: func(n note) error {
			args := maps.Clone(addArgs)
			args["title"], args["content"] = n.name, n.text
			_, err := p.tool(add, args)
			return err
		},
		search: func(words string) (string, error) {
			args := maps.Clone(searchArgs)
			args["query"] = words
			return p.tool(search, args)
		},
		stop: p.stop,
	}, nil
}

func basicMemory(tools string) system {
	venv := filepath.Join(tools, "basic-memory")
	program := filepath.Join(venv, "bin", "basic-memory")
	env := func(home string) []string {
		return environment(home, "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED=false", "BASIC_MEMORY_AUTO_UPDATE=false")
	}
	return system{
		name: "basic-memory", version: first(program, "--version"), size: []string{venv}, needs: "Python 3.12",
		open: func(home string, wrap ...string) (*session, error) {
			return overMCP(home, env(home), append(wrap, program, "mcp"),
				"write_note", map[string]any{"directory": "notes"}, "search_notes", map[string]any{"page_size": 5})
		},
		read:   func(home string) (string, error) { return catTree(filepath.Join(home, "basic-memory"), ".md") },
		check:  func(home string) error { _, err := run(home, env(home), program, "status"); return err },
		stores: []string{"basic-memory/notes/*.md", ".basic-memory/*.db*"},
		copy: func(home, to string) error {
			if err := os.CopyFS(filepath.Join(to, "basic-memory"), os.DirFS(filepath.Join(home, "basic-memory"))); err != nil {
				return err
			}
			_, err := run(to, env(to), program, "reindex", "--search")
			return err
		},
	}
}

// catTree returns a directory's files whose names end with suffix, one after another.
func catTree(dir, suffix string) (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		all.WriteByte('\n')
		return err
	})
	return all.String(), err
}

func engram(program string) system {
	return system{
		name: "Engram", version: first(program, "version"), size: []string{program}, needs: "one binary",
		open: func(home string, wrap ...string) (*session, error) {
			return overMCP(home, environment(home), append(wrap, program, "mcp"),
				"mem_save", map[string]any{"type": "decision", "project": "p"}, "mem_search", map[string]any{"limit": 5})
		},
		read: func(home string) (string, error) {
			if out, err := run(home, environment(home), program, "export", "out.json"); err != nil {
				return out, err
			}
			b, err := os.ReadFile(filepath.Join(home, "out.json"))
			return string(b), err
		},
		stores: []string{".engram/engram.db*"},
		copy: func(home, to string) error {
			if _, err := run(home, environment(home), program, "export", "out.json"); err != nil {
				return err
			}
			_, err := run(to, environment(to), program, "import", filepath.Join(home, "out.json"))
			return err
		},
	}
}

// mem0 runs the library with a local store, without a language model: mem0lines.py.
func mem0(tools string) system {
	venv := filepath.Join(tools, "mem0")
	python := filepath.Join(venv, "bin", "python")
	script := filepath.Join(tools, "mem0lines.py")
	env := func(home string) []string {
		return environment(home, "MEM0_TELEMETRY=False", "MEM0_DIR="+filepath.Join(home, ".mem0"), "OPENAI_API_KEY=unused", "OPENBLAS_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1", "DISTILL="+filepath.Join(tools, "distill"))
	}
	return system{
		name: "mem0", version: first(python, "-c", "import importlib.metadata as m; print(m.version('mem0ai'))"), size: []string{venv},
		needs: "Python, an API key or a local model",
		open: func(home string, wrap ...string) (*session, error) {
			p, err := start(home, env(home), append(wrap, python, script))
			if err != nil {
				return nil, err
			}
			if _, err := p.python("open", ""); err != nil {
				p.stop()
				return nil, err
			}
			return &session{
				add: func(n note) error { _, err := p.python("add", n.name+": "+n.text); return err },
				search: func(words string) (string, error) {
					return p.python("search", words)
				},
				stop: p.stop,
			}, nil
		},
		read:   func(home string) (string, error) { return run(home, env(home), python, script, "read") },
		stores: []string{".mem0/store/collection/*/*.sqlite", ".mem0/history.db"},
		history: func(home string) (string, error) {
			p, err := start(home, env(home), []string{python, script})
			if err != nil {
				return "", err
			}
			defer p.stop()
			out, err := p.python("change", "the first text")
			return fmt.Sprintf("history after update and delete has the first text: %t; no undo", strings.Contains(out, "the first text")), err
		},
	}
}

// python sends a request to mem0lines.py and returns its answer.
func (p *program) python(verb, text string) (string, error) {
	var got struct {
		OK    *string
		Error string
	}
	_, err := p.line([]string{verb, text}, func(b []byte) bool {
		return json.Unmarshal(b, &got) == nil && (got.OK != nil || got.Error != "")
	})
	if err == nil && got.Error != "" {
		err = fmt.Errorf("%s", short(got.Error))
	}
	if err != nil {
		return "", err
	}
	return *got.OK, nil
}

// settle waits until a condition holds, at most callTimeout.
func settle(what string, is func() bool) error {
	for end := time.Now().Add(callTimeout); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s: no answer in %v", what, callTimeout)
		}
	}
	return nil
}
