package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
)

var readAttacks = []attack{
	readAttack("", 20, 5),
	readAttack("", 1000, 2),
	readAttack("", 5000, 2),
	readAttack("/thin", 20, 5),
	readAttack("/thin", 5000, 2),
	readAttack("/aggregate", 20, 5),
	readAttack("/aggregate", 5000, 2),
}

// readAttack asks a path of the remote-read door for everything, queries times a request.
func readAttack(path string, queries, requests int) attack {
	return attack{
		name:  fmt.Sprintf("remote read%s of %d queries", path, queries),
		what:  fmt.Sprintf("sends %d remote-read requests at once, each with %d queries for everything, and takes the answers for some seconds", requests, queries),
		holds: "an answer begins or is refused by the query timeout",
		run: func(ctx context.Context, e *env) (v verdict) {
			body, err := readRequest(e, queries)
			if err != nil {
				v.breaks("%v", err)
				return v
			}
			limit, _ := e.flag("query.timeout", 2*time.Minute)
			take := 15 * time.Second
			if e.short {
				take = 3 * time.Second
			}
			counts := map[string]int{}
			var taken int64
			for _, a := range together(ctx, requests, requests, func(ctx context.Context, _ int) answer {
				ctx, cancel := context.WithTimeout(ctx, take)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.target.url+"/api/v1/read"+path, bytes.NewReader(body))
				if err != nil {
					return answer{err: err}
				}
				req.Header.Set("Content-Type", "application/x-protobuf")
				req.Header.Set("Content-Encoding", "snappy")
				req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
				return e.target.do(req)
			}) {
				counts[outcome(a)]++
				taken += a.bytes
				if a.first == 0 && take > limit+e.slack && ctx.Err() == nil {
					v.breaks("no answer: %s", a)
				}
			}
			v.figures = fmt.Sprintf("%s; %d MB taken", list(counts), taken>>20)
			return v
		},
	}
}

// readRequest is a request for all samples, as a Prometheus sends it that sums what it reads; half
// of the queries take the largest of each hour instead.
func readRequest(e *env, queries int) ([]byte, error) {
	r := &prompb.ReadRequest{AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}}
	start, end := e.start.UnixMilli(), e.end.UnixMilli()
	for i := range queries {
		hints := &prompb.ReadHints{StartMs: start, EndMs: end, StepMs: 600_000, Func: "sum", Grouping: []string{"job"}, By: true}
		if i%2 == 1 {
			hints = &prompb.ReadHints{StartMs: start, EndMs: end, StepMs: 600_000, Func: "max_over_time", RangeMs: 3_600_000}
		}
		r.Queries = append(r.Queries, &prompb.Query{
			StartTimestampMs: start, EndTimestampMs: end, Hints: hints,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}},
		})
	}
	b, err := r.Marshal()
	return snappy.Encode(nil, b), err
}
