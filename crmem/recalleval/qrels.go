package recalleval

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// readQrels reads the judgments of a folder, by query and document: qrels.tsv
// or, when that is missing, qrels/test.tsv.
func readQrels(open Open, dir string) (map[string]map[string]int, error) {
	name := filepath.Join(dir, "qrels.tsv")
	qrels := make(map[string]map[string]int)
	err := eachLine(open, name, qrelLine(qrels))
	if errors.Is(err, fs.ErrNotExist) {
		other := filepath.Join(dir, "qrels", "test.tsv")
		if e := eachLine(open, other, qrelLine(qrels)); !errors.Is(e, fs.ErrNotExist) {
			name, err = other, e
		}
	}
	if err == nil && len(qrels) == 0 {
		err = fmt.Errorf("%s: no judgments", name)
	}
	return qrels, err
}

// qrelLine reads a judgment: BEIR's query, document, grade or trec_eval's
// query, iteration, document, grade, in columns of tabs or, without any, of
// blanks. The first line may be a head.
func qrelLine(qrels map[string]map[string]int) func(n int, line []byte) error {
	return func(n int, line []byte) error {
		text := string(line)
		if strings.TrimSpace(text) == "" {
			return nil
		}
		cells := strings.Fields(text)
		if strings.Contains(text, "\t") {
			cells = strings.Split(text, "\t")
			for i, c := range cells {
				cells[i] = strings.TrimSpace(c)
			}
		}
		if len(cells) != 3 && len(cells) != 4 {
			return fmt.Errorf("%d columns, want query, document, grade", len(cells))
		}
		query, doc, last := cells[0], cells[len(cells)-2], cells[len(cells)-1]
		if n == 1 && !strings.ContainsAny(last, "0123456789") {
			return nil // the head
		}
		grade, err := strconv.ParseFloat(last, 64)
		if err != nil || grade != math.Trunc(grade) || math.Abs(grade) > 1<<30 {
			return fmt.Errorf("grade %q is not a whole number", last)
		}
		if query == "" || doc == "" {
			return errors.New("a column is empty")
		}
		of := qrels[query]
		if of == nil {
			of = make(map[string]int)
			qrels[query] = of
		}
		if old, twice := of[doc]; twice && old != int(grade) {
			return fmt.Errorf("query %q, document %q: grade %v, and %d before", query, doc, grade, old)
		}
		of[doc] = int(grade)
		return nil
	}
}
