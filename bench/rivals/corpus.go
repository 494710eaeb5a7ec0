//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

// note is a note to remember. Its name occurs in no other text.
type note struct{ name, text string }

// corpus returns the notes for the row on recall: each query's text, and other notes of the
// same kind. A name says nothing about its text.
func corpus() []note {
	texts := append([]string{}, others...)
	for _, q := range queries {
		if !slices.Contains(texts, q.target) {
			texts = append(texts, q.target)
		}
	}
	var list []note
	for i, text := range texts {
		list = append(list, note{fmt.Sprintf("zq%03dx", i), text})
	}
	return list
}

// numbered returns n notes with different texts.
func numbered(prefix string, n int) []note {
	var list []note
	for i := range n {
		list = append(list, note{fmt.Sprintf("%s%03dx", prefix, i),
			fmt.Sprintf("The build of module %s%03dx takes %d seconds on the small machine, and the cache helps.", prefix, i, 100+i)})
	}
	return list
}

// query is a search and the text that it must find. Ten queries were written before any
// program had answered one, and six later; no query was changed after an answer.
type query struct{ kind, words, target string }

var queries = []query{
	{"same words", "parking permit", "The parking permit is in the drawer under the printer."},
	{"same words", "rye bread", "The bakery opens at six and sells out of rye bread by nine."},
	{"form", "deploying canaries", "Deployments go out on Tuesday, after the canary has run for an hour."},
	{"form", "migrated database", "Run database migrations before the release, never after it."},
	{"form", "invoice customer", "Marta sends the invoices to customers on the first working day."},
	{"misspelling", "kuberntes", "Kubernetes restarts the worker when it uses more than 2 GB."},
	{"misspelling", "authentification", "Authentication uses short tokens from the identity service."},
	{"misspelling", "calender", "The team calendar lists who is on call each week."},
	{"Chinese", "数据库迁移", "发布之前先在测试环境里运行数据库迁移。"},
	{"Chinese", "妈妈生日", "妈妈的生日是五月三日,她喜欢白色的百合花。"},
	{"Russian", "собака парк", "Каждое утро мы гуляем с собаками в парке у реки."},
	{"Russian", "перезагрузка серверов", "Сервер перезагружается в полночь по воскресеньям, перезагрузки видны в журнале."},
	{"meaning", "locked out of my flat", "Peter has the spare key of the apartment."},
	{"meaning", "breakfast drink preference", "Coffee is black, without sugar, at 93 degrees."},
	{"meaning", "where do secrets go", "Passwords live in the vault, never in the repository."},
	{"meaning", "whom to phone at night", "The team calendar lists who is on call each week."},
}

// others are more notes.
var others = strings.Split(strings.TrimSpace(`
Coffee is black, without sugar, at 93 degrees.
The parking permit is in the drawer under the printer.
Use four spaces in Python and tabs in Go.
The staging server has the address 10.0.0.12.
Ana prefers short messages and no calls before ten.
Backups run each night and are copied to a second building.
The printer needs the driver of 2019, not the newest one.
Write tests before the fix, and see them fail once.
The office plant needs water twice a week.
Passwords live in the vault, never in the repository.
Retry a request three times, then tell the user.
The train to Bern leaves at 7:32 from track 4.
The logo is blue, the accent color is orange.
Feature flags are removed two weeks after launch.
The index is rebuilt when the schema changes.
Lunch is at the Greek place on Fridays.
Errors go to standard error, output to standard output.
The old API is switched off at the end of March.
The bakery opens at six and sells out of rye bread by nine.
The queue keeps messages for three days.
Peter has the spare key of the apartment.
Dates are written as year, month, day.
The mobile app needs two reviewers for each change.
Memory of the small machine is 8 GB.
The board meets in room 12 on the second Monday.
Logs are kept for thirty days and then removed.
The blue folder has the contracts with suppliers.
The heating is turned down to 17 degrees at night.
Compile with warnings as errors.
The newsletter is written by Luis and checked by Ana.
会议室在三楼,钥匙在前台。
咖啡不加糖,水温九十三度。
代码审查需要两个人同意。
周五下午不发布新版本。
备份每天晚上运行一次。
Ключ от квартиры лежит у соседа.
Поезд в Берн уходит в семь тридцать две.
Кофе без сахара, вода девяносто три градуса.
Новый выпуск выходит по вторникам.
Договоры с поставщиками лежат в синей папке.
`), "\n")
