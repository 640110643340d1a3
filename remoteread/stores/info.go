package stores

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/internal/leafpb"
)

// Facts are what a store tells by thanos.Info.
type Facts struct {
	Component string
	Labels    []labels.Labels // external labels, a set for each of those whose samples it has
	// Complete is the time, in ms, before which nothing is missing that is still to come: the end of
	// the blocks of the external labels that are furthest behind. It is math.MaxInt64 of a store that
	// has samples at once.
	Complete int64
}

// ended is how old the newest block of a set of external labels is at most. Nothing is expected of older
// ones: uploads are 2 to 3 h behind.
const ended = 6 * time.Hour

// Info asks the store what it is, and notes it.
func (s *Store) Info(ctx context.Context) (Facts, error) {
	var told leafpb.InfoResponse
	if err := s.Call(ctx, "/thanos.info.Info/Info", &leafpb.InfoRequest{}, &told); err != nil {
		return Facts{}, err
	}
	f := Facts{Component: told.ComponentType, Complete: complete(told.Store, time.Now())}
	for _, set := range told.LabelSets {
		f.Labels = append(f.Labels, labelsOf(set))
	}
	slices.SortFunc(f.Labels, labels.Compare)
	f.Labels = slices.CompactFunc(f.Labels, labels.Equal)
	s.facts.Store(&f)
	return f, nil
}

func labelsOf(set leafpb.LabelSet) labels.Labels {
	var b labels.ScratchBuilder
	one := prompb.TimeSeries{Labels: set.Labels}
	return one.ToLabels(&b, nil)
}

// complete is what Facts.Complete says of a store. One that has no samples will get some at any time.
func complete(store *leafpb.StoreInfo, now time.Time) int64 {
	if store == nil {
		return math.MinInt64
	}
	ends := map[string]int64{} // of the samples of each set of external labels
	for _, one := range store.TsdbInfos {
		set := labelsOf(one.Labels).String()
		if end, ok := ends[set]; !ok || end < one.MaxTime {
			ends[set] = one.MaxTime
		}
	}
	until := store.MaxTime
	for _, end := range ends {
		if end >= timestamp.FromTime(now.Add(-ended)) {
			until = min(until, end)
		}
	}
	return until
}

// Facts are what the store told last; ok says whether it has.
func (s *Store) Facts() (f Facts, ok bool) {
	if p := s.facts.Load(); p != nil {
		return *p, true
	}
	return Facts{Complete: math.MinInt64}, false
}

// String says what the store is, in words.
func (f Facts) String() string {
	const most = 8
	sets := make([]string, 0, most)
	for i, l := range f.Labels {
		if i == most {
			sets = append(sets, fmt.Sprintf("and %d more", len(f.Labels)-most))
			break
		}
		sets = append(sets, l.String())
	}
	text := fmt.Sprintf("Thanos %s, external labels %s", f.Component, strings.Join(sets, ", "))
	if len(f.Labels) == 0 {
		text = fmt.Sprintf("Thanos %s, no external labels", f.Component)
	}
	if f.Complete > math.MinInt64 && f.Complete < math.MaxInt64 {
		text += ", samples until " + timestamp.Time(f.Complete).UTC().Format(time.RFC3339)
	}
	return text
}
