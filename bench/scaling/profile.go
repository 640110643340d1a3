package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/promwarp/promwarp/selection/synthetic"
)

// mostLines is how many functions of a profile are printed.
const mostLines = 15

// profiles asks all queries on o.profile cores and prints what the profiles say.
func (o *options) profiles(w io.Writer, data synthetic.Metrics, jitter string) error {
	runtime.GOMAXPROCS(o.profile)
	e := newEngine()
	defer e.Close()
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	defer runtime.SetMutexProfileFraction(0)
	defer runtime.SetBlockProfileRate(0)
	var cpu bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		return err
	}
	for range o.rounds {
		for _, q := range o.queries {
			if err := o.ask(e, data, q); err != nil {
				pprof.StopCPUProfile()
				return err
			}
		}
	}
	pprof.StopCPUProfile()
	for _, kind := range []string{"cpu", "block", "mutex"} {
		raw := cpu.Bytes()
		if kind != "cpu" {
			var b bytes.Buffer
			if err := pprof.Lookup(kind).WriteTo(&b, 0); err != nil {
				return err
			}
			raw = b.Bytes()
		}
		if err := os.WriteFile(filepath.Join(o.out, jitter+"-"+kind+".pprof"), raw, 0o644); err != nil {
			return err
		}
		p, err := profile.ParseData(raw)
		if err != nil {
			return err
		}
		top(w, kind, p)
	}
	return nil
}

// top prints the functions that most of a profile's time was spent in, and where they were
// called from outside the runtime.
func top(w io.Writer, kind string, p *profile.Profile) {
	at := len(p.SampleType) - 1 // time
	spent, total := map[string]int64{}, int64(0)
	for _, s := range p.Sample {
		total += s.Value[at]
		spent[place(s)] += s.Value[at]
	}
	fmt.Fprintf(w, "\n%s: %.2f s in all\n", kind, float64(total)/1e9)
	var names []string
	for name := range spent {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(spent[b], spent[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(mostLines, len(names))] {
		fmt.Fprintf(w, "  %5.1f %%  %s\n", 100*float64(spent[name])/float64(max(total, 1)), name)
	}
}

// place is the innermost function of a sample, and the function of promwarp's that it was called
// from.
func place(s *profile.Sample) string {
	first := ""
	for _, l := range s.Location {
		for _, line := range l.Line {
			name := line.Function.Name
			if first == "" {
				first = name
			}
			const ours = "github.com/promwarp/promwarp/"
			if rest, ok := bytes.CutPrefix([]byte(name), []byte(ours)); ok {
				if name == first {
					return string(rest)
				}
				return fmt.Sprintf("%s, from %s:%d", first, rest, line.Line)
			}
		}
	}
	return first
}
