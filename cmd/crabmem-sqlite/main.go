// Command crabmem-sqlite prints rows of a SQLite database as JSON lines. crabmem
// import runs it to read the memories of other programs. crabmem itself does not
// contain SQLite, which would make it 4 MB larger.
//
//	crabmem-sqlite FILE TABLE...
package main

import (
	"os"

	"crabmem/cmd/internal/sqliterows"
)

func main() { os.Exit(sqliterows.Main(os.Args[1:], os.Stdout, os.Stderr)) }
