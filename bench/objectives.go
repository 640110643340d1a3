package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/engine/compare"
)

const (
	rulesAtOnce   = 4 // as a ruler evaluates groups
	untimedRounds = 2 // the first fetches 30 days
)

// objectives has a promwarp on two cores and Prometheus evaluate rules as time goes by. Prometheus's answers
// are the right ones. What promwarp ran on cores counts until the next round begins.
func objectives(ctx context.Context, r *rig) error {
	rules := slices.DeleteFunc(queries.Objectives(), func(rule queries.Query) bool { return !r.match.MatchString(rule.Name) })
	n := untimedRounds + r.shown.Rounds
	if left := time.Until(r.data.end()); left < time.Duration(n)*r.every {
		return fmt.Errorf("the samples in %s end in %s, before the rounds do: remove that folder", r.data.dir, left.Round(time.Second))
	}
	if err := r.prometheus(ctx, 0); err != nil {
		return err
	}
	warp, err := r.started(r.promwarp(ctx, min(2, runtime.NumCPU())))
	if err != nil {
		return err
	}
	r.shown.Contend(report.Prometheus, peers.Promwarp)
	r.shown.Compare(report.Prometheus, peers.Promwarp, "Prometheus ×")
	r.shown.Details = true
	row, reference, ours := r.shown.Row("all rules"), []cost{}, []cost{}
	row.Points, row.Wrong, row.Note = 0, "", fmt.Sprintf("same in %d rounds", n)
	for range n {
		at, before := time.Now().Truncate(time.Millisecond), spent(warp, r.source)
		got, wall, err := evaluate(ctx, warp, rules, at)
		between := spent(warp, r.source)
		own := cost{wall: wall, behind: between.behind - before.behind}
		want, wall, failed := evaluate(ctx, r.source, rules, at)
		right := cost{wall: wall, cpu: spent(warp, r.source).behind - between.behind}
		if err := cmp.Or(r.alive(), err, failed, sleep(ctx, time.Until(at.Add(r.every)))); err != nil {
			return err
		}
		own.cpu = spent(warp, nil).cpu - before.cpu
		r.say("on cores, %s %.0f ms, %s %.0f", report.Prometheus, right.cpu.Seconds()*1000, peers.Promwarp, own.cpu.Seconds()*1000)
		for k, rule := range rules {
			if difference := answer.Difference(want[k], got[k]); difference != "" {
				row.Wrong = fmt.Sprintf("%s at %s: %s", rule.Expr, at.UTC().Format(time.RFC3339), difference)
			}
			row.Points += answer.Points(want[k])
		}
		reference, ours = append(reference, right), append(ours, own)
	}
	row.Costs[report.Prometheus], row.Costs[peers.Promwarp] = r.costOf(reference[untimedRounds:]), r.costOf(ours[untimedRounds:])
	r.peak(peers.Promwarp, warp)
	r.peak(report.Prometheus, r.source)
	return r.save()
}

// evaluate has a server evaluate all rules as of a time, and returns how long that took.
func evaluate(ctx context.Context, server *peers.Process, rules []queries.Query, at time.Time) ([]*compare.Answer, time.Duration, error) {
	answers, begin := make([]*compare.Answer, len(rules)), time.Now()
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(rulesAtOnce)
	for i, rule := range rules {
		group.Go(func() error {
			asked := url.Values{"query": {rule.Expr}, "time": {at.UTC().Format(time.RFC3339Nano)}}
			a, err := answer.Ask(asking, server.URL, answer.Request{Path: answer.Query, Form: asked}, nil)
			if err == nil {
				answers[i], err = a.Parse()
			}
			return err
		})
	}
	err := group.Wait()
	return answers, time.Since(begin), err
}
