// Package service installs programs next to the daemon: the daemon itself, components
// (package component), and other programs that start with the user's session.
//
// A [Service] is a program that systemd, launchd, or the Task Scheduler runs,
// always as the user.
package service

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"

	"crabmem/crmem/vfs"
)

//go:embed templates
var templates embed.FS

// Service is a program that the system runs for its user. Name is needed.
type Service struct {
	Name        string // letters, digits, - . and _: "search"
	Description string // for people, on one line
	// Program is the absolute path of the program; "" is this program itself.
	Program string
	// Args are the arguments of the program; nil means "run".
	Args []string
	// Reloads is set if SIGHUP makes the program read its configuration again.
	Reloads bool
	// Home is the daemon's; "" is CRABTALK_HOME, or .crabtalk in the user's.
	Home string

	// FS and System are for tests. nil means the machine's files, and the
	// execution of commands of the service manager.
	FS     vfs.FS
	System func(ctx context.Context, name string, args ...string) error

	goos string // "" is this machine's
}

// Label returns the name of the service in the system.
func (s *Service) Label() string { return "ai.crabtalk." + s.Name }

// PortFile returns the file to which a component writes its port.
func (s *Service) PortFile() (string, error) { return s.in("run", s.Name+".port") }

// LogFile returns the file of the service's output.
func (s *Service) LogFile() (string, error) { return s.in("logs", s.Name+".log") }

func (s *Service) in(elem ...string) (string, error) {
	home, err := s.home()
	return filepath.Join(append([]string{home}, elem...)...), err
}

func (s *Service) home() (string, error) {
	home := s.Home
	if home == "" {
		home = os.Getenv("CRABTALK_HOME")
	}
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		home = filepath.Join(user, ".crabtalk")
	}
	return filepath.Abs(home)
}

func (s *Service) fs() vfs.FS {
	if s.FS == nil {
		return vfs.OS{}
	}
	return s.FS
}

func (s *Service) os() string {
	if s.goos == "" {
		return runtime.GOOS
	}
	return s.goos
}

// Check returns an error if the name or a text of the service is invalid.
func (s *Service) Check() error {
	ok := s.Name != "" && len(s.Name) <= 64 && !strings.Contains(s.Name, "__") && s.Name[0] != '.' && !strings.ContainsFunc(s.Name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
	if !ok {
		return fmt.Errorf("%q is not a service name: want up to 64 letters, digits, '-', '.', and '_'", s.Name)
	}
	if s.Name == "crabtalk" {
		return errors.New(`the name "crabtalk" is the daemon's own`)
	}
	for _, text := range append([]string{s.Description, s.Program, s.Home}, s.Args...) {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return fmt.Errorf("%q: want no control characters, such as line ends", text)
		}
	}
	return nil
}

// Print writes the file that Start would install, and changes nothing.
func (s *Service) Print(w io.Writer) error {
	_, text, err := s.Render()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// Start installs the service and launches it. One that is installed is replaced
// and started again.
func (s *Service) Start(ctx context.Context) error {
	file, text, err := s.Render()
	if err != nil {
		return err
	}
	log, err := s.LogFile()
	if err != nil {
		return err
	}
	port, err := s.PortFile()
	if err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(log), filepath.Dir(port), filepath.Dir(file)} {
		if err := vfs.MkdirAll(s.fs(), dir, 0o700); err != nil {
			return err
		}
	}
	if s.os() == "windows" {
		text = asUTF16(text)
	}
	if err := vfs.WriteFile(s.fs(), file, 0o600, text); err != nil {
		return err
	}
	for _, c := range s.commands(file, true) {
		if err := s.system(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the service and uninstalls it. One that is not installed is no
// error.
func (s *Service) Stop(ctx context.Context) error {
	if err := s.Check(); err != nil {
		return err
	}
	file, _, err := s.render(definition{Label: s.Label(), Command: []string{"x"}})
	if err != nil {
		return err
	}
	var errs []error
	if _, err := s.fs().Lstat(file); err == nil {
		for _, c := range s.commands(file, false) {
			errs = append(errs, s.system(ctx, c))
		}
		errs = append(errs, s.fs().Remove(file))
		if s.os() == "linux" {
			errs = append(errs, s.system(ctx, command{args: []string{"systemctl", "--user", "daemon-reload"}}))
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	port, err := s.PortFile()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := s.fs().Remove(port); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// command is a command of the service manager. One that may fail contains the
// condition that already holds.
type command struct {
	args    []string
	mayFail bool
}

func (s *Service) commands(file string, start bool) []command {
	label := s.Label()
	switch s.os() {
	case "linux":
		unit := label + ".service"
		if start {
			return []command{
				{args: []string{"systemctl", "--user", "daemon-reload"}},
				{args: []string{"systemctl", "--user", "enable", unit}},
				{args: []string{"systemctl", "--user", "restart", unit}},
			}
		}
		return []command{{args: []string{"systemctl", "--user", "disable", "--now", unit}}}
	case "darwin":
		domain := "gui/" + strconv.Itoa(os.Getuid())
		stop := command{args: []string{"launchctl", "bootout", domain + "/" + label}, mayFail: true}
		if start {
			return []command{stop, {args: []string{"launchctl", "bootstrap", domain, file}}}
		}
		return []command{stop}
	}
	end := command{args: []string{"schtasks", "/End", "/TN", label}, mayFail: true}
	if start {
		return []command{end, {args: []string{"schtasks", "/Create", "/F", "/TN", label, "/XML", file}}, {args: []string{"schtasks", "/Run", "/TN", label}}}
	}
	return []command{end, {args: []string{"schtasks", "/Delete", "/F", "/TN", label}}}
}

func (s *Service) system(ctx context.Context, c command) error {
	run := s.System
	if run == nil {
		run = runCommand
	}
	err := run(ctx, c.args[0], c.args[1:]...)
	if err != nil && !c.mayFail {
		return fmt.Errorf("%s: %w", strings.Join(c.args, " "), err)
	}
	return nil
}

func runCommand(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil && text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}
