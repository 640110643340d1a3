package leaf

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/internal/leafpb"
)

// Info implements leafpb.InfoServer. A Querier prunes and aggregates by external labels, so it is not told
// of series that queries here would answer without.
func (l *Leaf) Info(context.Context, *leafpb.InfoRequest) (*leafpb.InfoResponse, error) {
	now, sources := time.Now(), l.o.Sources()
	store := &leafpb.StoreInfo{MinTime: math.MaxInt64, MaxTime: newest}
	info := &leafpb.InfoResponse{ComponentType: "query", Query: &leafpb.QueryInfo{}, Store: store}
	for _, s := range sources {
		if !s.Shown && !s.Labels.IsEmpty() {
			return nil, status.Error(codes.FailedPrecondition, hidden)
		}
		set := leafpb.LabelSet{Labels: prompb.FromLabels(s.Labels, nil)}
		oldest := s.oldest(now)
		info.LabelSets = append(info.LabelSets, set)
		store.TsdbInfos = append(store.TsdbInfos, leafpb.TSDBInfo{Labels: set, MinTime: oldest, MaxTime: newest})
		store.MinTime = min(store.MinTime, oldest)
	}
	return info, nil
}

const hidden = "answers lack the external labels of the upstream, so a Thanos Querier cannot use this leaf; set upstream.external_labels to keep"

// Unlike says what a Querier over this and other leaves would answer wrongly, a sentence each.
func Unlike(sources []Source) (wrong []string) {
	var before []labels.Labels
	for _, s := range sources {
		switch {
		case s.Labels.IsEmpty():
			wrong = append(wrong, "the upstream has no external labels: a Thanos Querier cannot tell this leaf from others without, and adds up their sums as one leaf's; give its Prometheus global.external_labels")
		case !s.Shown:
			wrong = append(wrong, hidden)
		}
		for _, other := range before {
			if labels.Equal(other, s.Labels) {
				wrong = append(wrong, "two upstreams have the external labels "+s.Labels.String()+": they are one leaf for a Thanos Querier")
			}
		}
		before = append(before, s.Labels)
	}
	return wrong
}
