package comparison

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
)

func TestDifference(t *testing.T) {
	matrix := `{"resultType":"matrix","result":[{"metric":{"job":"a"},"values":[[1,"3"],[2,"NaN"]]}]}`
	for name, c := range map[string]struct {
		prometheus, promwarp string
		want                 string
	}{
		"the same":        {matrix, matrix, ""},
		"other spaces":    {matrix, " " + matrix, ""},
		"a bit":           {matrix, `{"resultType":"matrix","result":[{"metric":{"job":"a"},"values":[[1,"3.0000000000000004"],[2,"NaN"]]}]}`, `{job="a"} is 3.0000000000000004 at 1 in promwarp, 3 at 1 in Prometheus`},
		"a sign":          {`{"resultType":"scalar","result":[1,"0"]}`, `{"resultType":"scalar","result":[1,"-0"]}`, "-0"},
		"a time":          {matrix, `{"resultType":"matrix","result":[{"metric":{"job":"a"},"values":[[1.5,"3"],[2,"NaN"]]}]}`, "at 1.5 in promwarp"},
		"a label":         {matrix, `{"resultType":"matrix","result":[{"metric":{"job":"b"},"values":[[1,"3"],[2,"NaN"]]}]}`, `it is {job="b"} in promwarp`},
		"fewer points":    {matrix, `{"resultType":"matrix","result":[{"metric":{"job":"a"},"values":[[1,"3"]]}]}`, "has 1 values"},
		"no series":       {matrix, `{"resultType":"matrix","result":[]}`, "promwarp has 0 series, Prometheus 1"},
		"another type":    {matrix, `{"resultType":"vector","result":[]}`, "promwarp has a vector"},
		"order":           {`{"resultType":"vector","result":[{"metric":{"i":"1"},"value":[1,"1"]},{"metric":{"i":"2"},"value":[1,"2"]}]}`, `{"resultType":"vector","result":[{"metric":{"i":"2"},"value":[1,"2"]},{"metric":{"i":"1"},"value":[1,"1"]}]}`, "series 1"},
		"a string":        {`{"resultType":"string","result":[1,"a"]}`, `{"resultType":"string","result":[1,"b"]}`, `promwarp has "b"`},
		"a histogram":     {histogram(`"2"`), histogram(`"3"`), "Count: 3"},
		"not an answer":   {matrix, `{"resultType":"table"}`, "no known type"},
		"same histograms": {histogram(`"2"`), " " + histogram(`"2"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Difference(&client.Answer{Data: json.RawMessage(c.prometheus)}, &client.Answer{Data: json.RawMessage(c.promwarp)})
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
	same := client.Answer{Data: json.RawMessage(matrix)}
	require.ErrorContains(t, Difference(&client.Answer{Data: same.Data, Warnings: []string{"w"}}, &same), `"w"`)
}

func histogram(count string) string {
	return `{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":` + count + `,"sum":"1","buckets":[[3,"-1","1","2"]]}]}]}`
}
