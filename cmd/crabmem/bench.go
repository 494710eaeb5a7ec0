package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"crabmem/bm25/analysis"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/recalleval"
	"crabmem/daemon/config"
	"crabmem/daemon/embedder"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

type benchFlags struct {
	mode, analyzer   string
	store, questions string
	perQuery         string
	save, compare    string
	embedder         string
	weight           float64
	fusion           string
	fit              string
}

func benchCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "bench COMMAND",
		GroupID: groupCare,
		Short:   "measure search on your own data",
		Long: `Measure search quality and cost on test sets, or on a store with questions.
bench changes nothing, except that bench recall --fit sets embedder.weight.`,
		Example: `  crabmem bench recall tiny`,
	}, benchRecallCommand(c))
}

func benchRecallCommand(c *app) *cobra.Command {
	f := benchFlags{analyzer: analysis.Standard.String()}
	cmd := &cobra.Command{
		Use:   "recall [PATH...]",
		Short: "measure how well recall finds entries",
		Long: `Run the queries of a test set and score the results: nDCG@10 (linear gain),
recall@5, @10, and @100, MRR@10, and hit@1, @5, and @10 as trec_eval defines
them, with 95% bootstrap intervals. recall also measures the CPU time to index,
the time per query for 100 hits, and memory.

PATH is a directory with corpus.jsonl, queries.jsonl, and qrels.tsv (or
qrels/test.tsv) in BEIR format, or a directory of such directories. Titles
become names, and texts become content. Instead of a test set, use --store with
--questions: each line has a question, a tab, and the name of the entry that
answers it.

PATH may also be published conversations, in files of at most 1 GiB:

  LoCoMo       locomo10.json
  REALTALK     a directory of Chat_*.json, or one of them
  BEAM         a directory such as chats/100K, or of one chat
  LongMemEval  longmemeval_s.json or longmemeval_oracle.json

Each message becomes a note with its conversation, position, role, and date.
Questions that nothing answers do not count: category 5 of LoCoMo, abstention.
If a set states categories, recall prints the scores of each.

Some sets divide documents and queries into groups, such as conversations, by
metadata.group. --mode sets the documents that a query searches:

  group   an index of its group (default)
  filter  all documents; only the hits of its group count
  pooled  all documents

--embedder NAME also ranks by meaning, with the vectors of the static model NAME
that crabmem model add installed; --embedder config uses [embedder] of
config.toml, which may send all texts to a server. --weight and --fusion set how
the scores by words and by meaning are combined.

--fit FILE sets embedder.weight in config.toml to the weight that suits your own
questions. FILE is as for --questions, with at least 30 questions. Every other
question selects the weight, and the rest show the effect: a comparison of the
old weight with the new one. The weight changes only if the difference is larger
than its standard error.

--save keeps a run. --compare compares this run with a saved one: a paired
randomization test for each measure, and the queries whose results changed.
--per-query writes one JSON line per query, with its hits. --json prints one
line per set.`,
		Example: `  crabmem bench recall tiny
  crabmem bench recall tiny --analyzer plain --save plain.json --per-query plain.jsonl
  crabmem bench recall tiny --mode pooled --save run.json && crabmem bench recall tiny --compare run.json
  crabmem bench recall --fit questions.tsv
  printf 'how do we ship?\tdeploy\n' > q.tsv && crabmem bench recall --store memory.db --questions q.tsv --json`,
		Args: cobra.ArbitraryArgs,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.mode, "mode", "", "search the documents of this `mode`: group, filter, or pooled (default group)")
	fl.StringVar(&f.analyzer, "analyzer", f.analyzer, "tokenize with `analyzer` standard or plain")
	fl.StringVar(&f.store, "store", "", "measure the store in this `file`")
	fl.StringVar(&f.questions, "questions", "", "read the questions for --store from this `file`")
	fl.StringVar(&f.perQuery, "per-query", "", "write one JSON line per query to this `file`")
	fl.StringVar(&f.save, "save", "", "save the run to this `file`")
	fl.StringVar(&f.compare, "compare", "", "compare with the saved run in this `file`")
	fl.StringVar(&f.embedder, "embedder", "", "rank by meaning, too, with this `model`")
	fl.Float64Var(&f.weight, "weight", 0, "weight of meaning, above 0, at most 1, with --embedder (default that of the model)")
	fl.StringVar(&f.fusion, "fusion", "convex", "combine scores by `fusion` convex or reciprocal_rank, with --embedder")
	fl.StringVar(&f.fit, "fit", "", "set embedder.weight by the questions in this `file`")
	completeWords(cmd, "fusion", "convex", "reciprocal_rank")
	completeWords(cmd, "mode", "group", "filter", "pooled")
	completeWords(cmd, "analyzer", "standard", "plain")
	cmd.RunE = func(cmd *cobra.Command, dirs []string) error {
		b := bench{c: c, ctx: cmd.Context(), options: recalleval.Options{Passes: 3, CPU: recalleval.CPUTime}, comparisons: make(map[string]*recalleval.Comparison)}
		var err error
		if b.options.Mode, err = recalleval.ParseMode(f.mode); err != nil {
			return cli.Usagef("--%v", err)
		}
		if b.options.Analyzer, err = analysis.ParseAnalyzer(f.analyzer); err != nil {
			return cli.Usagef("--analyzer: %v", err)
		}
		if fl.Changed("weight") && !(f.weight > 0 && f.weight <= 1) {
			return cli.Usagef("--weight %v: want a number above 0, up to 1", f.weight)
		}
		if f.fit != "" {
			if len(dirs) > 0 || f.questions != "" || f.embedder != "" || f.weight != 0 || f.analyzer != analysis.Standard.String() {
				return wrongArgs(cmd, "--fit uses a store, the standard analyzer, and [embedder]: omit PATH, --questions, --embedder, --weight, and --analyzer")
			}
			f.store, f.questions, f.embedder = cmp.Or(f.store, c.storePath()), f.fit, "config"
		}
		b.f = f
		if err := b.meaning(); err != nil {
			return err
		}
		if (f.store == "") != (f.questions == "") {
			return wrongArgs(cmd, "--store requires --questions, and --questions requires --store")
		}
		if len(dirs) == 0 && f.store == "" {
			return wrongArgs(cmd, "missing argument: want a PATH, or --store and --questions")
		}
		return b.run(dirs)
	}
	return c.outputs(cmd, of[benchAnswer]())
}

// meaning sets the options of --embedder, --weight, and --fusion.
func (b *bench) meaning() error {
	if b.f.embedder == "" {
		return nil
	}
	method, err := fusion.ParseMethod(b.f.fusion)
	if err != nil {
		return cli.Usagef("--fusion %v", err)
	}
	home := b.c.homeDir()
	conf := &config.Embedder{Static: b.f.embedder}
	if b.f.embedder == "config" {
		all, err := config.Load(b.c.fs, home, b.c.Getenv)
		if err != nil {
			return err
		}
		if conf = all.Embedder; conf == nil {
			return noEmbedder()
		}
	}
	if b.f.fit != "" && method != fusion.Convex {
		return cli.Usagef("--fusion %s has no weight: omit it, or --fit", b.f.fusion)
	}
	b.options.Semantic = &fusion.Request{Fusion: method, Weight: cmp.Or(b.f.weight, conf.Weight)}
	b.options.Embed, err = embedder.Open(b.c.fs, home, conf)
	return err
}

// bench is one run of bench recall.
type bench struct {
	c       *app
	ctx     context.Context
	f       benchFlags
	options recalleval.Options

	results     []*recalleval.Result
	comparisons map[string]*recalleval.Comparison // by set
	fit         *recalleval.Fit
}

func (b *bench) run(dirs []string) error {
	old := make(map[string]*recalleval.Result)
	if b.f.compare != "" {
		saved, err := recalleval.ReadSaved(b.open, b.f.compare)
		if err != nil {
			return b.about(b.f.compare, err, "use a file that --save wrote")
		}
		for _, r := range saved {
			old[r.Set] = r
		}
	}
	for _, path := range dirs {
		sources, err := recalleval.Find(b.c.fs, path)
		if err != nil {
			return b.about(path, err, benchRemedy)
		}
		for _, source := range sources {
			if err := b.source(source); err != nil {
				return err
			}
		}
	}
	if b.f.store != "" {
		if err := b.own(); err != nil {
			return err
		}
	}
	for _, r := range b.results {
		if o := old[r.Set]; o != nil {
			c := recalleval.Compare(o, r)
			b.comparisons[r.Set] = &c
		} else if b.f.compare != "" {
			b.c.Warn(fmt.Sprintf("%s has no run of the test set %s", b.f.compare, r.Set))
		}
	}
	if err := b.write(); err != nil {
		return err
	}
	if b.fit != nil && b.fit.Weight != b.fit.Old {
		pair := config.Pair{Key: "embedder.weight", Value: fmt.Sprint(b.fit.Weight)}
		if _, err := b.c.writeConfig(b.ctx, op.ConfigChange{Keys: []config.Pair{pair}}); err != nil {
			return err
		}
	}
	if b.c.JSON {
		return b.printJSON()
	}
	b.text()
	return nil
}

// open opens a file and follows links, which caches of test sets consist of.
func (b *bench) open(name string) (io.ReadCloser, error) {
	path, err := b.c.fs.Resolve(name)
	if err != nil {
		return nil, err
	}
	return b.c.fs.Open(path)
}

const benchRemedy = "use a directory with corpus.jsonl, queries.jsonl, and qrels.tsv, a directory of such directories, or conversations as crabmem bench recall --help lists them"

// about adds the remedy to an error for a file that is not a store.
func (b *bench) about(path string, err error, remedy string) error {
	f := classify(err)
	if f.Path == "" {
		f.Path = path
	}
	if f.Code != cli.ExitPermission && !errors.Is(err, context.Canceled) {
		f.Code, f.Kind, f.Remedy = cli.ExitFailure, "failed", remedy
	}
	return f
}

// source measures a set.
func (b *bench) source(source recalleval.Source) error {
	s, err := busy(b.c, "reading "+source.Path, func() (*recalleval.Set, error) { return source.Load(b.open) })
	if err != nil {
		return b.about(source.Path, err, benchRemedy)
	}
	if path, err := b.c.fs.Resolve(source.Path); err == nil {
		s.Name = strings.TrimSuffix(filepath.Base(path), ".json") // also of "."
	}
	return b.measure(s)
}

// own measures the store with its questions.
func (b *bench) own() error {
	b.c.db = b.f.store
	return b.c.read(func(store *crmem.Store) error {
		s, err := recalleval.FromStore(filepath.Base(b.f.store), store, b.open, b.f.questions)
		if err != nil {
			return b.about(b.f.questions, err, "write a question, a tab, and the name of an entry on each line")
		}
		return b.measure(s)
	})
}

func (b *bench) measure(s *recalleval.Set) error {
	for _, r := range b.results {
		if r.Set == s.Name {
			return cli.Usagef("two test sets have the name %s: measure them one by one", s.Name)
		}
	}
	p := b.c.Progress(s.Name)
	o := b.options
	o.Progress = p.Step
	var r *recalleval.Result
	var err error
	if b.f.fit != "" {
		b.fit, r, b.comparisons[s.Name], err = recalleval.FitWeight(b.ctx, s, o)
		if errors.Is(err, recalleval.ErrFewQuestions) {
			err = b.about(b.f.fit, err, "add questions, or set embedder.weight yourself")
		}
	} else {
		r, err = recalleval.Run(b.ctx, s, o)
	}
	p.End()
	if err == nil {
		b.results = append(b.results, r)
	}
	return err
}
