package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed engines.py
var enginesPy string

//go:embed Lucene.java
var luceneJava string

//go:embed tantivy/Cargo.toml
var tantivyToml string

//go:embed tantivy/src/main.rs
var tantivyMain string

// errMissing means that the programs of an engine are not installed.
var errMissing = errors.New("not installed")

// engine is a search engine that another program measures.
type engine struct {
	name    string
	install string
	// command returns the program and its first arguments, or errMissing.
	command func(dir string) ([]string, error)
	least   func(docs int) ratios
}

var engines = []engine{
	{"sqlite", "pip install apsw", python("sqlite"), always(100)},
	{"tantivy", "install Rust: https://rustup.rs", tantivy("skip"), tantivyLeast},
	{"tantivy, no skips", "install Rust: https://rustup.rs", tantivy("all"), tantivyAllLeast},
	{"xapian", "apt-get install python3-xapian", python("xapian"), always(5)},
	{"lucene", "apt-get install default-jdk-headless maven && mvn dependency:get -Dartifact=org.apache.lucene:lucene-core:" + luceneVersion, lucene, always(3.5)},
}

// always returns one minimum for p50 and p99.
func always(least float64) func(int) ratios {
	return func(int) ratios { return ratios{p50: least, p99: least} }
}

// tantivyLeast returns the minimum ratios for an index of so many documents.
func tantivyLeast(docs int) ratios {
	if docs >= 1_000_000 {
		return ratios{p50: 2, p99: 4}
	}
	return ratios{3, 2.6, 1.5}
}

// tantivyAllLeast is tantivyLeast for searches that read all postings. They are faster
// than tantivy's usual searches for long queries.
func tantivyAllLeast(docs int) ratios {
	if docs >= 1_000_000 {
		return ratios{p50: 2, p99: 2.5}
	}
	return ratios{3, 2.6, 1.5}
}

// measure runs the program of an engine.
func (e engine) measure(dir string, passes int) (result, error) {
	args, err := e.command(dir)
	if err != nil {
		return result{}, err
	}
	index, err := os.MkdirTemp(dir, "index")
	if err != nil {
		return result{}, err
	}
	args = append(args, filepath.Join(dir, "docs"), filepath.Join(dir, "queries"), strconv.Itoa(passes), index)
	cmd := exec.Command(args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return result{}, err
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return result{}, fmt.Errorf("parse output: %w", err)
	}
	return r, nil
}

// missingModule is the exit code of engines.py if the module is not installed.
const missingModule = 3

// python returns the command of an engine in engines.py. Debian installs modules only
// for /usr/bin/python3, which need not be the first in PATH.
func python(name string) func(string) ([]string, error) {
	return func(dir string) ([]string, error) {
		for _, p := range []string{"python3", "/usr/bin/python3"} {
			args := []string{p, filepath.Join(dir, "engines.py"), name}
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			var exit *exec.ExitError
			switch {
			case err == nil:
				return args, nil
			case errors.As(err, &exit) && exit.ExitCode() != missingModule:
				return nil, fmt.Errorf("run %s: %w\n%s", p, err, out)
			}
		}
		return nil, errMissing
	}
}

const luceneVersion = "9.12.3"

// lucene returns the command of Lucene.java. LUCENE_JAR contains the path of the
// library. If it is unset, lucene looks in Maven's local repository. A JDK runs the
// source.
func lucene(dir string) ([]string, error) {
	jar := os.Getenv("LUCENE_JAR")
	if jar == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		jar = filepath.Join(home, ".m2/repository/org/apache/lucene/lucene-core", luceneVersion, "lucene-core-"+luceneVersion+".jar")
	}
	if _, err := os.Stat(jar); err != nil {
		return nil, errMissing
	}
	if _, err := exec.LookPath("javac"); err != nil {
		return nil, errMissing
	}
	return []string{"java", "-cp", jar, filepath.Join(dir, "Lucene.java"), "lucene"}, nil
}

// tantivy returns the command of the program in the directory tantivy.
func tantivy(mode string) func(string) ([]string, error) {
	return func(string) ([]string, error) {
		program, err := buildTantivy()
		return []string{program, mode}, err
	}
}

// buildTantivy builds the program and returns its path. It keeps the build in the
// user's cache directory, as it takes minutes.
func buildTantivy() (string, error) {
	if _, err := exec.LookPath("cargo"); err != nil {
		return "", errMissing
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "crabmem-bench", "tantivy")
	for name, content := range map[string]string{"Cargo.toml": tantivyToml, "src/main.rs": tantivyMain} {
		path := filepath.Join(dir, name)
		if old, err := os.ReadFile(path); err == nil && string(old) == content {
			continue // a new modification time would build it again
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	cmd := exec.Command("cargo", "build", "--release", "--quiet", "--target-dir", filepath.Join(dir, "target"))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tantivy: %w\n%s", err, out)
	}
	return filepath.Join(dir, "target", "release", "engine"), nil
}
