package guard

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/mcpserver/mcptest"
)

func TestRefusalLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &mcptest.Buffer{}
		r := &RefusalLog{Log: slog.New(slog.NewTextHandler(out, nil))}
		count := func(part string) int { return strings.Count(out.String(), part) }
		for i := range 1000 {
			r.Refuse(401, "no token", fmt.Sprintf("client %d", i))
			r.Evict()
		}
		if got := count("refused a request"); got != 10 || count("\n") != 10 {
			t.Errorf("%d refusals logged, want 10:\n%s", got, out)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if count("\n") != 11 || count("requests=990 connections=1000 within=1m0s") != 1 {
			t.Errorf("after the window:\n%s", out)
		}
		// The next window logs again, and one without a count has no summary.
		r.Refuse(403, "host", "client 1001")
		time.Sleep(time.Hour)
		synctest.Wait()
		if count("status=403") != 1 || count("\n") != 12 {
			t.Errorf("in the next window:\n%s", out)
		}
		r.Evict()
		r.Flush()
		r.Flush()
		if count("requests=0 connections=1 ") != 1 || count("\n") != 13 {
			t.Errorf("after flush:\n%s", out)
		}
	})
}
