package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
)

// options are what the flags say. What is 0 or empty is the stage's own.
type options struct {
	stages         []*stage
	dir            string
	data           shape
	rounds         int
	budget         time.Duration
	match          *regexp.Regexp // names of questions
	only           []string       // peers
	cores, clients []int
	during         time.Duration
	every          time.Duration // between the rounds of the stage slo
	work           bool
	promwarpFlags  string
	binaries       map[string]*string // by peer
	from           string             // file of results to show; nothing is measured
	json           string
	markdown       string
	readme         string
}

// smoke is what -smoke sets: enough to see that everything works.
var smoke = map[string]string{"series": "340", "hours": "3", "rounds": "1", "only": peers.Promwarp, "cores": "1", "clients": "2", "for": "100ms", "every": "1s"}

// parseOptions reads the command line.
func parseOptions(args []string, w io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	f.Usage = func() {
		fmt.Fprintln(w, "Stages:")
		for _, s := range stages {
			fmt.Fprintf(w, "  %-11s %s; about %d series over %d h\n", s.name, s.about, s.data.series, s.data.hours)
		}
		fmt.Fprintln(w, "\nFlags, which count for all stages; without them each has numbers of its own:")
		f.PrintDefaults()
	}
	names := f.String("stages", stages[0].name, "what to measure, in order")
	f.StringVar(&o.dir, "dir", "", "folder for data and results, which a later run goes on with, and result.json; a temporary one if empty")
	f.IntVar(&o.data.series, "series", 0, "about how many series to generate")
	f.IntVar(&o.data.hours, "hours", 0, "how many hours of samples to generate")
	f.DurationVar(&o.data.interval, "interval", 0, "the samples' distance; 15 s if 0")
	f.Uint64Var(&o.data.seed, "seed", 1, "which data set of the kind to generate")
	f.DurationVar(&o.data.age, "age", 0, "how long ago the data ends when it is generated")
	f.StringVar(&o.data.jitter, "jitter", "none", "by what samples come up to 3 ms late: none, scrape (those of a target alike) or series (each by itself, as where they are pushed)")
	f.IntVar(&o.rounds, "rounds", 0, "how often to time each question")
	f.DurationVar(&o.budget, "budget", 0, "how long a question's rounds may take before no other begins")
	match := f.String("queries", "", "regular expression of the names of the questions to ask; empty for all")
	only := f.String("only", peers.Promwarp+","+peers.VictoriaMetrics, "peers to ask besides promwarp; Prometheus is asked in all stages but cores and functions, where it takes long")
	cores := f.String("cores", "", "numbers of cores of the stages cores and gzip, as 2,4,16; by default the powers of two up to the machine's, and these")
	clients := f.String("clients", "1,4,16,64", "numbers of clients of the stage clients")
	f.DurationVar(&o.during, "for", 10*time.Second, "how long each number of clients asks")
	f.DurationVar(&o.every, "every", time.Minute, "the time between the rounds of the stage slo, in which samples arrive")
	f.BoolVar(&o.work, "work", false, "take the time that servers run on cores in place of what passes")
	f.StringVar(&o.promwarpFlags, "flags", "", "flags of promwarp in place of the stage's own, with spaces between")
	o.binaries = map[string]*string{}
	for _, name := range []string{peers.Promwarp, peers.Prometheus, peers.VictoriaMetrics} {
		o.binaries[name] = f.String(name, "", "program of "+name+"; built if empty")
	}
	f.StringVar(&o.json, "json", "", "file for the results, which -from reads; -dir has them in result.json, too")
	f.StringVar(&o.from, "from", "", "file of results of an earlier run, on any machine: measure nothing, print their tables, and write -markdown and -readme")
	f.StringVar(&o.markdown, "markdown", "", "file for the tables in Markdown")
	f.StringVar(&o.readme, "readme", "", "page into which figures of the stages dashboards and exporters are written, as make readme-figures does")
	small := f.Bool("smoke", false, "see quickly whether everything works: few series, one round, no VictoriaMetrics")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	if *small {
		for name, value := range smoke {
			if !given[name] {
				_ = f.Set(name, value) // a flag and a value of ours
			}
		}
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.data.series < 0 || o.data.hours < 0 || o.rounds < 0 {
		return o, errors.New("-series, -hours and -rounds must be at least 1, or 0 for the stage's own")
	}
	if o.match, err = regexp.Compile(*match); err != nil {
		return o, fmt.Errorf("-queries: %w", err)
	}
	var of, from, who error
	o.cores, of = numbers("cores", *cores, runtime.NumCPU())
	o.clients, from = numbers("clients", *clients, 1000)
	o.only, who = chosen("only", *only, o.binaries)
	return o, errors.Join(of, from, who, o.chooseStages(*names))
}

// numbers reads numbers from 1 to most with commas between. Of none they are the powers of two up
// to most, and most.
func numbers(flag, list string, most int) (all []int, err error) {
	if list == "" {
		for n := 1; n < most; n *= 2 {
			all = append(all, n)
		}
		return append(all, most), nil
	}
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("-%s: %q is no number from 1 to %d", flag, s, most)
		}
		all = append(all, n)
	}
	return all, nil
}

// chosen reads names that are known, with commas between.
func chosen[V any](flag, list string, known map[string]V) (all []string, err error) {
	for s := range strings.SplitSeq(list, ",") {
		s = strings.TrimSpace(s)
		if _, ok := known[s]; !ok {
			return nil, fmt.Errorf("-%s: nothing is called %q; there are %s", flag, s, strings.Join(report.SortedKeys(known), ", "))
		}
		all = append(all, s)
	}
	return all, nil
}

func (o *options) chooseStages(list string) error {
	known := map[string]*stage{}
	for _, s := range stages {
		known[s.name] = s
	}
	names, err := chosen("stages", list, known)
	for _, name := range names {
		o.stages = append(o.stages, known[name])
	}
	return err
}

// asks says whether a peer is to be asked.
func (o *options) asks(peer string) bool { return slices.Contains(o.only, peer) }
