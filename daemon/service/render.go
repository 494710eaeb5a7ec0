package service

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// definition has the values of the templates.
type definition struct {
	Label, Description, Log, User string
	Command                       []string
	Env                           []string
	Reloads                       bool
}

func (s *Service) definition() (d definition, err error) {
	if err := s.Check(); err != nil {
		return d, err
	}
	d = definition{Label: s.Label(), Description: s.Description, Reloads: s.Reloads}
	if d.Description == "" {
		d.Description = s.Name
	}
	program := s.Program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return d, err
		}
	}
	if !filepath.IsAbs(program) && s.os() == runtime.GOOS {
		return d, fmt.Errorf("program %q: want an absolute path", program)
	}
	args := s.Args
	if args == nil {
		args = []string{"run"}
	}
	d.Command = append([]string{program}, args...)
	home, err := s.home()
	if err != nil {
		return d, err
	}
	d.Env = []string{"CRABTALK_HOME=" + home}
	if path := searchPath(os.Getenv("PATH")); path != "" && s.os() != "windows" { // there, services have the user's
		d.Env = append(d.Env, "PATH="+path)
	}
	if d.Log, err = s.LogFile(); err != nil {
		return d, err
	}
	if s.os() == "windows" {
		u, err := user.Current()
		if err != nil {
			return d, err
		}
		d.User = u.Username
	}
	return d, nil
}

// searchPath returns the directories of a PATH that a service can use: absolute ones, each
// once.
func searchPath(path string) string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && !strings.ContainsFunc(dir, unicode.IsControl) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// Render returns the file that Start would install, and its content.
func (s *Service) Render() (file string, text []byte, err error) {
	d, err := s.definition()
	if err != nil {
		return "", nil, err
	}
	return s.render(d)
}

func (s *Service) render(d definition) (file string, text []byte, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", nil, err
	}
	var name string
	switch s.os() {
	case "linux":
		config := os.Getenv("XDG_CONFIG_HOME")
		if !filepath.IsAbs(config) {
			config = filepath.Join(home, ".config")
		}
		name, file = "systemd.service", filepath.Join(config, "systemd", "user", d.Label+".service")
	case "darwin":
		name, file = "launchd.plist", filepath.Join(home, "Library", "LaunchAgents", d.Label+".plist")
	case "windows":
		data, err := s.home()
		if err != nil {
			return "", nil, err
		}
		name, file = "task.xml", filepath.Join(data, "run", d.Label+".xml")
	default:
		return "", nil, fmt.Errorf("services are not supported on %s: run the program another way, with the argument run", s.os())
	}
	values, err := d.values(name)
	if err != nil {
		return "", nil, err
	}
	t, err := templates.ReadFile("templates/" + name)
	if err != nil {
		return "", nil, err
	}
	return file, []byte(strings.NewReplacer(values...).Replace(string(t))), nil
}

// values returns the placeholders of a template, each with its escaped value.
// text/template is not used: a program that links it keeps every method of
// every type that is reachable.
func (d definition) values(template string) ([]string, error) {
	var command, environment strings.Builder
	switch template {
	case "systemd.service":
		for i, arg := range d.Command {
			if i > 0 {
				command.WriteByte(' ')
			}
			command.WriteString(execArg(arg))
		}
		for _, e := range d.Env {
			environment.WriteString("Environment=" + quoted(e) + "\n")
		}
		reload := ""
		if d.Reloads {
			reload = "ExecReload=kill -HUP $MAINPID\n"
		}
		return []string{"{description}", unitText(d.Description), "{command}", command.String(), "{reload}", reload, "{environment}", environment.String(), "{log}", unitText(d.Log)}, nil
	case "launchd.plist":
		for _, arg := range d.Command {
			command.WriteString("\t\t<string>" + xmlText(arg) + "</string>\n")
		}
		for _, e := range d.Env {
			name, value, _ := strings.Cut(e, "=")
			environment.WriteString("\t\t<key>" + xmlText(name) + "</key>\n\t\t<string>" + xmlText(value) + "</string>\n")
		}
		return []string{"{label}", xmlText(d.Label), "{arguments}", command.String(), "{environment}", environment.String(), "{log}", xmlText(d.Log)}, nil
	}
	line, err := cmdLine(d)
	return []string{"{description}", xmlText(d.Description), "{user}", xmlText(d.User), "{arguments}", xmlText(line)}, err
}

// unitText returns a value for a unit of systemd. A line that ends in a
// backslash continues in the next one.
func unitText(text string) string {
	return strings.TrimRight(strings.ReplaceAll(text, "%", "%%"), `\ `)
}

// quoted is one word in a unit of systemd, and execArg one of a command, where
// variables are replaced too.
func quoted(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(word) + `"`
}

func execArg(arg string) string { return quoted(strings.ReplaceAll(arg, "$", "$$")) }

func xmlText(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // the builder returns no error
	return b.String()
}

// cmdLine returns the arguments of the Windows shell that run a service: the
// scheduler has neither variables nor redirections.
func cmdLine(d definition) (string, error) {
	var b strings.Builder
	b.WriteString(`/d /s /c "`)
	for _, text := range slices.Concat(d.Env, d.Command, []string{d.Log}) {
		if strings.ContainsAny(text, `"%!`) || strings.HasSuffix(text, `\`) {
			return "", fmt.Errorf("%q cannot be passed to cmd.exe: it must not contain \", %%, or !, or end with \\", text)
		}
	}
	for _, e := range d.Env {
		b.WriteString(`set "` + e + `"&& `)
	}
	for i, a := range d.Command {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(`"` + a + `"`)
	}
	b.WriteString(` >> "` + d.Log + `" 2>&1"`)
	return b.String(), nil
}

// asUTF16 converts text for the Task Scheduler.
func asUTF16(text []byte) []byte {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(strings.ReplaceAll(string(text), "\n", "\r\n"))) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}
