package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"crabmem/crmem/vfs"
	"crabmem/daemon/secret"
	"crabmem/daemon/secret/scan"
)

// knownSecrets are the values of the home's store of secrets.
type knownSecrets struct {
	mu     sync.Mutex
	read   vfs.FileState
	values *scan.Known
}

// known returns the values of the home's store of secrets. It reads the file again after
// a change. While the file cannot be read, the earlier values count.
func (d *Daemon) known() *scan.Known {
	if d.home == "" { // it is not open yet
		return nil
	}
	var now vfs.FileState
	if fi, err := d.fs.Lstat(filepath.Join(d.home, secret.File)); err == nil {
		now = vfs.StateOf(fi)
	}
	d.secrets.mu.Lock()
	if d.secrets.read == now {
		defer d.secrets.mu.Unlock()
		return d.secrets.values
	}
	d.secrets.read = now
	values, err := d.secretValues()
	if err == nil {
		d.secrets.values = scan.NewKnown(values)
	}
	known := d.secrets.values
	d.secrets.mu.Unlock()
	if err != nil { // the log takes the lock, too
		d.log.Warn("the values of stored secrets are not redacted", "error", err)
	}
	return known
}

func (d *Daemon) secretValues() (values []string, err error) {
	s := &secret.Store{FS: d.fs, Home: d.home, Keyring: secret.System(d.opts.Getenv)}
	all, err := s.Open()
	if err != nil {
		return nil, err
	}
	for _, name := range all.Names() {
		v, err := all.Get(name)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// redaction returns a redaction of the text of a response, or nil if the setting
// [memory] secrets keeps secrets.
func (d *Daemon) redaction() *scan.Stream {
	if p := d.setup().config.Secrets; p == scan.Off || p == scan.Warn {
		return nil
	}
	return scan.NewStream(d.known())
}

// leaves returns an error for text that must not leave this machine: it contains a secret.
// The policies off and warn permit it, and warn logs it.
func (d *Daemon) leaves(text string) error {
	policy := d.setup().config.Secrets
	if policy == scan.Off {
		return nil
	}
	found := d.known().Find(text)
	switch {
	case len(found) == 0:
		return nil
	case policy == scan.Warn:
		d.log.Warn("the arguments of a call contain " + scan.Describe(text, found))
		return nil
	}
	return fmt.Errorf("not sent: the arguments contain %s: leave it out", scan.Describe(text, found))
}

// redactedLog is a handler of log records that redacts their texts.
type redactedLog struct {
	slog.Handler
	d *Daemon
}

func (h redactedLog) WithAttrs(list []slog.Attr) slog.Handler {
	return redactedLog{h.Handler.WithAttrs(attrs(h.d.known(), list)), h.d}
}

func (h redactedLog) WithGroup(name string) slog.Handler {
	return redactedLog{h.Handler.WithGroup(name), h.d}
}

func (h redactedLog) Handle(ctx context.Context, r slog.Record) error {
	known := h.d.known()
	text, _ := known.Redact(r.Message)
	out := slog.NewRecord(r.Time, r.Level, text, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(attrs(known, []slog.Attr{a})...)
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// attrs returns attributes without secrets in their texts.
func attrs(k *scan.Known, list []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(list))
	for i, a := range list {
		out[i] = a
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindGroup:
			out[i].Value = slog.GroupValue(attrs(k, v.Group())...)
		case slog.KindString, slog.KindAny:
			if text, found := k.Redact(fmt.Sprint(v)); len(found) > 0 {
				out[i].Value = slog.StringValue(text)
			}
		}
	}
	return out
}
