package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/queries"
)

// right is an answer that was found to be Prometheus's.
type right struct {
	Sum    string `json:"sha256"` // of its bytes
	Series int    `json:"series"`
	Points int    `json:"points"`
}

// form asks for the query up to the end of the data.
func (b *bench) form(q queries.Query) url.Values {
	return q.Form(time.Unix(b.data.End, 0), time.Duration(b.hours)*time.Hour)
}

// judge returns what is known of promwarp's answer to the query, once it is known to be
// Prometheus's: the bytes of one that was compared before, or the points of Prometheus's.
func (b *bench) judge(ctx context.Context, q queries.Query, jitter, upstream string, a answer.Answer) (right, error) {
	if err := a.Err(); err != nil {
		return right{}, err
	}
	hash := sha256.Sum256(a.Body)
	sum := hex.EncodeToString(hash[:])
	key := q.Name + " " + jitter
	if known, ok := b.data.Right[key]; ok && known.Sum == sum {
		return known, nil
	}
	got, err := a.Parse()
	if err != nil {
		return right{}, err
	}
	want, err := b.reference(ctx, q, upstream)
	if err != nil {
		return right{}, err
	}
	want.Notices, got.Notices = kinds(want.Notices), kinds(got.Notices)
	r := right{Sum: sum, Series: len(got.Series), Points: got.Points()}
	if d := answer.Compare(want, got); !d.Same() {
		b.result.Wrong = append(b.result.Wrong, fmt.Sprintf("%s, times differ: %s: %s", q.Name, jitter, d.First))
		return r, nil
	}
	b.data.Right[key] = r
	return r, nil
}

// reference is Prometheus's answer, which it computes on one core: its steps in parts, all at once.
func (b *bench) reference(ctx context.Context, q queries.Query, upstream string) (*answer.Matrix, error) {
	span := min(q.Range, time.Duration(b.hours)*time.Hour)
	start := time.Unix(b.data.End, 0).Add(-span)
	steps := int(span/q.Step) + 1
	parts := make([]*answer.Matrix, min(2*runtime.GOMAXPROCS(0), steps))
	group, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		first, last := i*steps/len(parts), (i+1)*steps/len(parts)-1
		part := q
		part.Range = time.Duration(last-first) * q.Step
		group.Go(func() error {
			a, err := answer.Ask(ctx, upstream, part.Form(start.Add(time.Duration(last)*q.Step), math.MaxInt64), nil)
			if err == nil {
				parts[i], err = a.Parse()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("ask Prometheus for the right answer: %w", err)
	}
	return join(parts), nil
}

// join puts answers for parts of a range together, in the order of time.
func join(parts []*answer.Matrix) *answer.Matrix {
	all := &answer.Matrix{Series: map[string][]answer.Point{}}
	for _, p := range parts {
		for name, points := range p.Series {
			all.Series[name] = append(all.Series[name], points...)
		}
		all.Notices = append(all.Notices, p.Notices...)
	}
	return all
}

// kinds are the warnings and infos without numbers that depend on the range that was asked for.
func kinds(notices []string) (kinds []string) {
	for _, n := range notices {
		n, _, _ = strings.Cut(n, ", from buckets")
		kinds = append(kinds, n)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
