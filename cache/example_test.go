package cache_test

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/selection"
)

// noting is an upstream without samples that says what it is asked for.
type noting struct{}

func (noting) Fetch(_ context.Context, mint, maxt int64, _ []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	clock := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.999") }
	fmt.Println("  fetched:", clock(mint), "to", clock(maxt))
	return selection.Empty(), nil, nil
}

// The second query of a stretch of time is fetched only where its samples may still change.
func Example() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	c := cache.New(noting{}, cache.Options{HostBytes: 1 << 20, Now: func() time.Time { return now }})
	up := labels.MustNewMatcher(labels.MatchEqual, "__name__", "up")
	for range 2 {
		fmt.Println("a query from 10:00 to 12:00")
		q, err := selection.Storage{Source: c}.ChunkQuerier(now.Add(-2*time.Hour).UnixMilli(), now.UnixMilli())
		if err != nil {
			panic(err)
		}
		for set := q.Select(context.Background(), true, nil, up); set.Next(); {
		}
		q.Close()
	}
	// Output:
	// a query from 10:00 to 12:00
	//   fetched: 10:00:00 to 12:00:00
	// a query from 10:00 to 12:00
	//   fetched: 11:30:00 to 12:00:00
}
