package daemon

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/usage"
)

const (
	bulletin       = "bulletin"  // the note with the context of main in a model's words
	bulletinOf     = "of"        // its metadata: the digest of the context
	bulletinTokens = 6000        // of the context
	maxBulletin    = 8 << 10     // bytes
	bulletinPoll   = time.Minute // between looks at a configuration without bulletins

	bulletinRetry = 30 * time.Second // after an error, doubled
	bulletinPause = 30 * time.Minute // after bulletinTries errors in a row
	bulletinTries = 3
)

// bulletins writes the bulletin at the interval of the configuration, until ctx ends.
func (d *Daemon) bulletins(ctx context.Context) {
	for failures, wait := 0, bulletinPoll; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = cmp.Or(d.setup().config.Cortex.Synthesis, bulletinPoll)
		err := d.writeBulletin(ctx)
		if err == nil {
			failures = 0
			continue
		}
		d.log.Warn("write bulletin", "error", err)
		if wait = bulletinRetry << failures; failures+1 == bulletinTries {
			wait = bulletinPause
		}
		failures = (failures + 1) % bulletinTries
	}
}

// writeBulletin has a model rewrite the context of main as a note, if the configuration
// requires it and the context is not that of the last bulletin. After an error, the note
// stays as it is.
func (d *Daemon) writeBulletin(ctx context.Context) error {
	set := d.setup()
	name := cmp.Or(set.config.Roles.Models.Cortex, set.models.Active())
	if set.config.Cortex.Synthesis == 0 || name == config.Offline {
		return nil
	}
	from, err := d.bulletinSource()
	if err != nil || from == "" {
		return err
	}
	of := op.SHA256(from)
	if m, _, _ := metadata.Parse(noteOf(d.store, bulletin).Content); strings.Join(m.Values(bulletinOf), "") == of {
		return nil
	}
	text, err := d.sessionSetup().Runner.Bulletin(usage.With(ctx, config.Cortex, ""), name, from)
	if err != nil {
		return err
	}
	if now, err := d.bulletinSource(); err != nil || now != from {
		return err // a note changed, or was purged: the next bulletin has the change
	}
	field, err := metadata.NewField(bulletinOf, of)
	if err != nil {
		return err
	}
	if text, err = metadata.Set(clip.Bytes(text, maxBulletin), field); err != nil {
		return err
	}
	_, err = op.Remember.Do(ctx, op.Store{Store: d.store, By: crmem.By{Agent: config.Cortex}, Guard: d.guard()}, op.Note{Remember: crmem.Remember{Name: bulletin, Content: text}})
	return err
}

// bulletinSource returns the context that a bulletin rewrites.
func (d *Daemon) bulletinSource() (string, error) {
	digest := op.NewDigest(op.ContextQuery{Budget: bulletinTokens}, d.now())
	digest.Add("", d.store, bulletin)
	out, err := digest.Text(nil)
	return out.Text, err
}

// addTo adds the notes of a space to a context, or the bulletin in place of those of main.
func (d *Daemon) addTo(digest *op.Digest, name string, s *crmem.Store) {
	if name != space.Main {
		digest.Add(name, s)
		return
	}
	if e := noteOf(s, bulletin); e.ID != 0 && d.setup().config.Cortex.Synthesis > 0 {
		info := e.Info(false)
		s.AddUse(&info)
		age := d.now().Sub(time.Unix(int64(max(info.CreatedAt, info.UpdatedAt)), 0)).Truncate(time.Minute)
		digest.Lead(fmt.Sprintf("Bulletin, %v old", age), metadata.Text(e.Content))
		return
	}
	digest.Add("", s)
}
