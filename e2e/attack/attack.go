package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
)

// attack is one way to ask for trouble.
type attack struct {
	name  string
	what  string // is done, in one sentence
	holds string // what must hold, besides what holds of every attack
	// apart says that it takes hundreds of connections and asks nothing: where others are at it too,
	// it comes from an address of its own, or they would wait for a connection of theirs.
	apart bool
	run   func(ctx context.Context, e *env) verdict
}

// attacks are all of them, in the order in which they are run.
func attacks() []attack {
	var all []attack
	for _, list := range [][]attack{
		queryAttacks, heavyAttacks, formAttacks, regexpAttacks, pathAttacks, rawAttacks, listAttacks,
		readAttacks, slowAttacks, floodAttacks, abortAttacks, reloadAttacks,
	} {
		all = append(all, list...)
	}
	return all
}

// verdict says whether what must hold of an attack held.
type verdict struct {
	broken  []string // what did not hold; none if all did
	skipped string   // why the attack could not be made, loudly
	figures string   // what was measured
}

// breaks adds something that did not hold.
func (v *verdict) breaks(format string, args ...any) {
	if len(v.broken) < 5 {
		v.broken = append(v.broken, fmt.Sprintf(format, args...))
	}
}

// word is the verdict in one word.
func (v verdict) word() string {
	switch {
	case len(v.broken) > 0:
		return "BROKEN"
	case v.skipped != "":
		return "SKIPPED"
	default:
		return "holds"
	}
}

// env is what attacks are made on and with.
type env struct {
	target    *server
	reference *server // a Prometheus to compare with; nil if there is none
	flags     map[string]string

	start, end time.Time     // of the data
	timeout    time.Duration // that is asked for with each query
	slack      time.Duration // how much later than its deadline an answer may come
	seed       uint64
	short      bool // the short form: a tenth of everything
	patience   int  // how many times as long everything may take; 1 where nothing else runs
	mixed      bool // with everything else at once: nothing is compared

	*counts
}

// counts are of the queries of all attacks.
type counts struct {
	asked, late, failed atomic.Int64 // queries; answers after the deadline; those without an answer
	latest              atomic.Int64 // ns, of the answer that was furthest behind its deadline
}

// alone is e without a reference.
func (e *env) alone() *env {
	one := *e
	one.reference = nil
	return &one
}

// at is e with data that ends so much earlier.
func (e *env) at(earlier time.Duration) *env {
	one := *e
	one.start, one.end = e.start.Add(-earlier), e.end.Add(-earlier)
	return &one
}

// count is n, or a tenth of it in the short form.
func (e *env) count(n int) int {
	if e.short {
		return max(n/10, 2)
	}
	return n
}

// random returns a source of random numbers that is the same in each run with a seed.
func (e *env) random(salt uint64) *rand.Rand { return rand.New(rand.NewPCG(e.seed, salt)) }

// flag is a duration among the target's flags, or otherwise where it has no such flag.
func (e *env) flag(name string, otherwise time.Duration) (time.Duration, bool) {
	d, err := model.ParseDuration(e.flags[name])
	if err != nil {
		return otherwise, false
	}
	return time.Duration(d), true
}

// instant is the form of an instant query at the end of the data.
func (e *env) instant(query string) url.Values {
	return url.Values{"query": {query}, "time": {seconds(e.end)}, "timeout": {e.timeout.String()}}
}

// over is the form of a range query over all data.
func (e *env) over(query string, step time.Duration) url.Values {
	return url.Values{
		"query": {query}, "start": {seconds(e.start)}, "end": {seconds(e.end)},
		"step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}, "timeout": {e.timeout.String()},
	}
}

func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// query asks the target and notes whether the answer began by its deadline. The client itself
// gives up long after that.
func (e *env) query(ctx context.Context, path string, form url.Values) answer {
	ctx, cancel := context.WithTimeout(ctx, 3*e.timeout+30*time.Second)
	defer cancel()
	a := e.target.post(ctx, path, form)
	e.note(ctx, a)
	return a
}

// note counts an answer to a query.
func (e *env) note(ctx context.Context, a answer) {
	e.asked.Add(1)
	began := a.first
	if began == 0 {
		began = a.took
	}
	if over := began - e.timeout; over > e.slack && ctx.Err() == nil {
		e.late.Add(1)
		for {
			old := e.latest.Load()
			if old >= int64(over) || e.latest.CompareAndSwap(old, int64(over)) {
				break
			}
		}
	}
	if a.err != nil && ctx.Err() == nil {
		e.failed.Add(1)
	}
}

// short is a duration to three digits.
func short(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}

// list joins what was counted, as "3 × 200, 2 × 503".
func list(counts map[string]int) string {
	var parts []string
	for _, k := range sortedKeys(counts) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[k], k))
	}
	return strings.Join(parts, ", ")
}
