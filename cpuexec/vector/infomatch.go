package vector

import (
	"slices"
	"strings"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/plan"
)

// identity are the labels that a series and its info series share: the values of instance
// and job, either of which may be empty.
type identity struct{ instance, job string }

func identityOf(l labels.Labels) identity { return identity{l.Get("instance"), l.Get("job")} }

// isInfo reports whether a series is one of info series itself, to which nothing is added.
func isInfo(n *plan.Info, l labels.Labels) bool {
	name := l.Get(model.MetricNameLabel)
	return !slices.ContainsFunc(n.Names, func(m *labels.Matcher) bool { return !m.Matches(name) })
}

// IdentifyingMatchers select the info series that may belong to the rows: those with any of
// their instances and any of their jobs. Series that lack one of the labels are asked for
// by themselves, as Prometheus's engine does: what is selected decides what it finds to be
// in conflict.
func IdentifyingMatchers(n *plan.Info, in []plan.Row) (sets [][]*labels.Matcher) {
	type values struct{ instances, jobs map[string]bool }
	var of [4]values // by which of the labels there are: 1 is the job, 2 the instance
	for i := range in {
		id := identityOf(in[i].Labels)
		has := 0
		if id.job != "" {
			has |= 1
		}
		if id.instance != "" {
			has |= 2
		}
		if has == 0 || isInfo(n, in[i].Labels) {
			continue
		}
		if of[has].jobs == nil {
			of[has] = values{map[string]bool{}, map[string]bool{}}
		}
		of[has].instances[id.instance], of[has].jobs[id.job] = true, true
	}
	for _, v := range of[1:] {
		if v.jobs != nil {
			sets = append(sets, []*labels.Matcher{anyValueOf("instance", v.instances), anyValueOf("job", v.jobs)})
		}
	}
	return sets
}

// anyValueOf matches any of the values of a label, or that there is none if that is their only
// one.
func anyValueOf(name string, values map[string]bool) *labels.Matcher {
	if values[""] {
		return labels.MustNewMatcher(labels.MatchEqual, name, "")
	}
	quoted := make([]string, 0, len(values))
	for v := range values {
		quoted = append(quoted, regexp.QuoteMeta(v))
	}
	slices.Sort(quoted)
	return labels.MustNewMatcher(labels.MatchRegexp, name, strings.Join(quoted, "|"))
}
