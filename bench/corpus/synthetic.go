package corpus

import "strings"

// SyntheticQuery is the query of the synthetic corpus, top 5.
const SyntheticQuery = "agent memory recall session"

// syntheticWords are the 109 words of the synthetic corpus.
var syntheticWords = strings.Fields(`
agent memory recall session archive alias anchor answer backlog backup balance
beacon binary branch bridge bucket buffer builder cabinet caller carrier channel
chapter circuit client cluster codec column commit compass context copper
courier cursor daemon decoder delta device digest drawer driver editor encoder
engine entry event factor feature filter folder forest format frame gateway
glossary graph harbor header history index invoice journal kernel ladder lantern
ledger library limit listener locker marker matrix merge meter mirror module
needle network notebook object orbit packet pattern pilot planet pointer portal
prompt query queue ranking reader record rudder runtime schema shelf signal
socket stream summary syntax tablet ticket timer token vector writer zephyr
`)

// Synthetic returns document i of the synthetic corpus: 20 to 34 words that
// walk the vocabulary in a fixed stride, so that documents fall into a few
// hundred shapes and most scores are shared by many.
func Synthetic(i int) string {
	n := 20 + 7*i%21
	var b strings.Builder
	for j := range n {
		if j > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(syntheticWords[(31*i+17*j)%len(syntheticWords)])
	}
	return b.String()
}
