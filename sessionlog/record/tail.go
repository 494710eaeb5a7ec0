package record

import (
	"bytes"
	"strconv"
)

// Copied ends each copy of a message after a marker (S42).
const Copied = `,"again":true}`

// IsCopy reports whether a message is such a copy.
func IsCopy(line []byte) bool { return bytes.HasSuffix(line, []byte(Copied)) }

// MaxKept is the largest number of messages that a marker keeps.
const MaxKept = 100_000

const keep = `,"keep":`

// AppendKeep appends the end of a marker that keeps n messages, without the line end.
func AppendKeep(dst []byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, keep...), int64(n), 10), '}')
}

// Kept returns how many messages a marker keeps: 0 to MaxKept.
func Kept(line []byte) int {
	i := bytes.LastIndex(line, []byte(keep))
	if i < 0 {
		return 0
	}
	digits, ended := bytes.CutSuffix(line[i+len(keep):], []byte{'}'})
	n, err := strconv.ParseUint(string(digits), 10, 32)
	if err != nil || !ended || n > MaxKept || digits[0] == '0' {
		return 0
	}
	return int(n)
}
