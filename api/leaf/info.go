package leaf

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/api/leaf/leafpb"
)

// Info implements leafpb.InfoServer. Queries are offered where they see the external labels of all series,
// as they would at Thanos's own leaves. Without, a Querier reads series and evaluates itself.
func (l *Leaf) Info(context.Context, *leafpb.InfoRequest) (*leafpb.InfoResponse, error) {
	now, sources := time.Now(), l.o.Sources()
	info := &leafpb.InfoResponse{ComponentType: "query", Query: &leafpb.QueryInfo{}, Store: &leafpb.StoreInfo{MinTime: math.MaxInt64, MaxTime: newest}}
	for _, s := range sources {
		set := leafpb.LabelSet{Labels: prompb.FromLabels(s.Labels, nil)}
		oldest := s.oldest(now)
		info.LabelSets = append(info.LabelSets, set)
		info.Store.TsdbInfos = append(info.Store.TsdbInfos, leafpb.TSDBInfo{Labels: set, MinTime: oldest, MaxTime: newest})
		info.Store.MinTime = min(info.Store.MinTime, oldest)
		if !s.Shown && !s.Labels.IsEmpty() {
			info.Query = nil
		}
	}
	return info, nil
}

// Unlike says what a Querier over this and other leaves would answer wrongly, a sentence each.
func Unlike(sources []Source) (wrong []string) {
	var before []labels.Labels
	for _, s := range sources {
		switch {
		case s.Labels.IsEmpty():
			wrong = append(wrong, "the upstream has no external labels: a Thanos Querier cannot tell this leaf from others without, and adds up their sums as one leaf's; give its Prometheus global.external_labels")
		case !s.Shown:
			wrong = append(wrong, "queries see no external labels of the upstream, so a Thanos Querier has none evaluated here; set upstream.external_labels to keep")
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
