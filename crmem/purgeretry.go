package crmem

import (
	"time"
)

// finishOrRetry is finishPurge. After an error it continues in the background.
func (s *Store) finishOrRetry() (deleted []string, err error) {
	if deleted, err = s.finishPurge(); err != nil {
		s.retryPurge()
	}
	return deleted, err
}

// purgeRetry is the time between two attempts to complete a purge.
const purgeRetry = 30 * time.Second

// retryPurge completes the purge in the background, until Close or an error that stops
// the store. The caller holds wmu.
func (s *Store) retryPurge() {
	if s.retrying || s.closed || s.stopped != nil {
		return
	}
	s.retrying = true
	s.bg.Go(func() {
		for again := true; again; {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(purgeRetry):
				again = s.tryPurge()
			}
		}
	})
}

// tryPurge is one attempt of retryPurge. It returns false if there is no other.
func (s *Store) tryPurge() (again bool) {
	defer s.excludeWriters()()
	again = s.unfinishedLines() != "" && s.stopped == nil
	if again {
		deleted, err := s.finishPurge()
		again = err != nil
		s.reportPurge(deleted, err)
	}
	s.retrying = again
	return again
}

// reportPurge reports the end of a purge that an earlier call or process began.
func (s *Store) reportPurge(deleted []string, err error) {
	if err != nil {
		s.warn("continue an unfinished purge: %v", err)
		return
	}
	s.warn("completed a purge that was unfinished")
	for _, name := range deleted {
		s.warn("deleted %s, which may have contained purged text", name)
	}
}
