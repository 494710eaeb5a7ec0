package record_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"crabmem/sessionlog/record"
)

func TestTimestamp(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for ns, want := range map[int]string{
		0: "2026-01-02T03:04:05+00:00", 1: "2026-01-02T03:04:05.000000001+00:00", 1000: "2026-01-02T03:04:05.000001+00:00",
		1_000_000: "2026-01-02T03:04:05.001+00:00", 1_001_000: "2026-01-02T03:04:05.001001+00:00", 1_000_001: "2026-01-02T03:04:05.001000001+00:00",
		1001: "2026-01-02T03:04:05.000001001+00:00", 999_999_999: "2026-01-02T03:04:05.999999999+00:00", 999_000_000: "2026-01-02T03:04:05.999+00:00",
		500: "2026-01-02T03:04:05.000000500+00:00", 500_000: "2026-01-02T03:04:05.000500+00:00", 100_000_000: "2026-01-02T03:04:05.100+00:00",
	} {
		if got := record.Timestamp(time.Date(2026, 1, 2, 5, 4, 5, ns, zone)); got != want {
			t.Errorf("%d ns: %s, want %s", ns, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	for kind, want := range map[record.Kind]string{
		record.KindBlank: "blank", record.KindBad: "bad", record.KindMeta: "meta", record.KindMessage: "message", record.KindMarker: "marker",
		record.KindMetaRecord: "meta record", record.KindUnknown: "unknown", record.KindCopy: "copy", record.KindCopy + 1: "kind 8", 255: "kind 255",
	} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d: %q, want %q", uint8(kind), got, want)
		}
	}
}

func TestFormatError(t *testing.T) {
	for want, err := range map[string]*record.FormatError{
		"line 3 (offset 40): bad": {Line: 3, Offset: 40, Msg: "bad"}, "/s/f: line 1 (offset 0): empty": {Path: "/s/f", Line: 1, Msg: "empty"},
	} {
		if err.Error() != want || !errors.Is(err, record.ErrFormat) || errors.Is(err, io.EOF) {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
