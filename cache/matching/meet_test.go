package matching

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

func TestMayMeet(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`a`, `a`, true},
		{`a`, `b`, false},
		{`a{x="1"}`, `a{y="1"}`, true},
		{`a{x="1"}`, `a{x=~"1|2"}`, true},
		{`a{x="3"}`, `a{x=~"1|2"}`, false},
		{`a{x=~"3"}`, `a{x=~"1|2"}`, true}, // not certain
		{`a{x!="1"}`, `a{x="1"}`, false},
		{`a{x=""}`, `a{x!=""}`, false},
		{`a{x=""}`, `a`, true},
		{`{__name__=~"a.*"}`, `ab`, true},
		{`{__name__=~"a.*"}`, `b`, false},
	} {
		a, err := p.ParseMetricSelector(test.a)
		require.NoError(t, err)
		b, err := p.ParseMetricSelector(test.b)
		require.NoError(t, err)
		require.Equal(t, test.want, mayMeet(a, b), "%s %s", test.a, test.b)
		require.Equal(t, test.want, mayMeet(b, a), "%s %s", test.b, test.a)
	}
}
