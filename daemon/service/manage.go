package service

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"crabmem/crmem/vfs"
)

// ErrNotInstalled is returned if the system does not have the service.
var ErrNotInstalled = errors.New("the service is not installed")

// For returns the service as another system than this one would have it: linux,
// darwin or windows.
func (s *Service) For(goos string) *Service {
	other := *s
	other.goos = goos
	return &other
}

// Installed returns the file that Start writes, and whether it is there.
func (s *Service) Installed() (file string, ok bool, err error) {
	if err := s.Check(); err != nil {
		return "", false, err
	}
	file, _, err = s.render(definition{Label: s.Label(), Command: []string{"x"}})
	if err != nil {
		return "", false, err
	}
	_, err = s.fs().Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, false, nil
	}
	return file, err == nil, err
}

// InstalledEnv returns the value of a variable in the file of the installed service, or "".
// If the service is not installed, the error matches fs.ErrNotExist.
func (s *Service) InstalledEnv(name string) (string, error) {
	file, _, err := s.Installed()
	if err != nil {
		return "", err
	}
	b, err := vfs.ReadFile(s.fs(), file, 1<<20)
	if err != nil {
		return "", err
	}
	between := func(text, from, to string) string {
		_, text, _ = strings.Cut(text, from)
		text, _, _ = strings.Cut(text, to)
		return text
	}
	switch s.os() {
	case "linux":
		return strings.NewReplacer(`\\`, `\`, `\"`, `"`, "%%", "%").Replace(between(string(b), `Environment="`+name+"=", "\"\n")), nil
	case "darwin":
		_, after, _ := strings.Cut(string(b), "<key>"+name+"</key>")
		return html.UnescapeString(between(after, "<string>", "</string>")), nil
	}
	return "", nil
}

// Launch starts an installed service. It does not restart a running one.
func (s *Service) Launch(ctx context.Context) error { return s.tell(ctx, true) }

// End has the system end a service, which stays installed.
func (s *Service) End(ctx context.Context) error { return s.tell(ctx, false) }

func (s *Service) tell(ctx context.Context, run bool) error {
	file, ok, err := s.Installed()
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: %s does not exist", ErrNotInstalled, file)
	}
	return s.system(ctx, s.order(file, run))
}

// order returns the command that starts or stops the installed service.
func (s *Service) order(file string, run bool) command {
	unit, label := s.Label()+".service", s.Label()
	domain := "gui/" + strconv.Itoa(os.Getuid())
	switch {
	case s.os() == "linux" && run:
		return command{args: []string{"systemctl", "--user", "start", unit}}
	case s.os() == "linux":
		return command{args: []string{"systemctl", "--user", "stop", unit}}
	case s.os() == "darwin" && run:
		return command{args: []string{"launchctl", "bootstrap", domain, file}}
	case s.os() == "darwin":
		return command{args: []string{"launchctl", "bootout", domain + "/" + label}}
	case run:
		return command{args: []string{"schtasks", "/Run", "/TN", label}}
	}
	return command{args: []string{"schtasks", "/End", "/TN", label}}
}
