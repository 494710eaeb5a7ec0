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

// errMissing means that the programs of an engine are not installed.
var errMissing = errors.New("not installed")

// engine is a search engine that another program measures.
type engine struct {
	name    string
	install string
	// command returns the program and its first arguments, or errMissing.
	command func(dir string) ([]string, error)
	least   float64 // minimum ratio of search times to the search times of crabmem
}

var engines = []engine{
	{"sqlite", "pip install apsw", python("sqlite"), 100},
	{"tantivy", "pip install tantivy", python("tantivy"), 2},
	{"xapian", "apt-get install python3-xapian", python("xapian"), 5},
	{"lucene", "apt-get install default-jdk-headless maven && mvn dependency:get -Dartifact=org.apache.lucene:lucene-core:" + luceneVersion, lucene, 3.5},
}

// measure runs the program of an engine.
func (e engine) measure(dir string, passes int) (result, error) {
	args, err := e.command(dir)
	if err != nil {
		return result{}, err
	}
	index, err := os.MkdirTemp(dir, e.name)
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
