package sqliterows

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"crabmem/crmem/vfs"
)

// timeLimit limits the run, because a malicious database can make a query slow.
const timeLimit = 10 * time.Minute

const usage = `usage: crabmem-sqlite FILE TABLE...

Print the rows of tables of a SQLite database as JSON lines. The database is only
read. crabmem import runs this program.`

// Main runs the program crabmem-sqlite and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) < 2 || strings.HasPrefix(args[0], "-") {
		fmt.Fprintln(stderr, usage)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	out := bufio.NewWriterSize(stdout, 1<<16)
	err := Write(ctx, vfs.OS{}, args[0], args[1:], out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
