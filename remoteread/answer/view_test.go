package answer

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/stretchr/testify/require"
)

// A view asks for series by the labels that are stored, each once.
func TestViewQueries(t *testing.T) {
	ext := labels.FromStrings("cluster", "eu", "room", "1")
	eq := func(name, value string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, name, value) }
	for name, c := range map[string]struct {
		ms   []*labels.Matcher
		keep bool
		want []string
	}{
		"nothing about external labels": {
			[]*labels.Matcher{eq("a", "b")}, false,
			[]string{`a="b",cluster="",room=""`, `a="b",cluster!=""`, `a="b",room!=""`},
		},
		"the very value of one": {
			[]*labels.Matcher{eq("cluster", "eu")}, false,
			[]string{`cluster=~"eu",room=""`, `cluster=~"eu",room!=""`},
		},
		"both": {
			[]*labels.Matcher{eq("cluster", "e.u"), eq("room", "2")}, false,
			[]string{`cluster=~"e\\.u",room=~"2"`},
		},
		"without one": {
			[]*labels.Matcher{eq("cluster", "")}, false,
			[]string{`cluster="",cluster="",room=""`, `cluster="",cluster!=""`, `cluster="",room!=""`},
		},
		"kept, and the very value of one": {
			[]*labels.Matcher{eq("a", "b"), eq("cluster", "eu")}, true,
			[]string{`a="b",cluster="",room=""`, `a="b",cluster=~"eu",cluster!=""`, `a="b",room!=""`},
		},
		"kept, and another value of one": {
			[]*labels.Matcher{eq("cluster", "us")}, true,
			[]string{`cluster=~"us",cluster!="",room=""`, `cluster=~"us",cluster!="",room!=""`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kept := labels.EmptyLabels()
			if c.keep {
				kept = ext
			}
			v, err := NewView(ext, kept, c.ms)
			require.NoError(t, err)
			var got []string
			for _, q := range v.Queries(v.Matchers) {
				back, err := remote.FromLabelMatchers(q)
				require.NoError(t, err)
				text := ""
				for i, m := range back {
					if i > 0 {
						text += ","
					}
					text += m.String()
				}
				got = append(got, text)
			}
			require.Equal(t, c.want, got)
		})
	}
}
