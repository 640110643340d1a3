package peers

import "context"

// StartPromwarpBefore starts a promwarp, with nothing in its cache, in front of the server at the
// URL upstream, as it is by default but for what the further arguments say.
func StartPromwarpBefore(ctx context.Context, program Program, upstream string, args ...string) (*Process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	all := []string{"serve", "--upstream.url=" + upstream, "--web.listen-address=" + addr, "--log.level=warn"}
	return start(ctx, "promwarp", place{addr, "/-/ready"}, program, append(all, args...)...)
}

// StartPromwarp starts a promwarp, with nothing in its cache, in front of the
// server at the URL upstream. decoded is the most memory for decoded samples, as
// --cache.decoded-bytes takes it, and results that for results.
func StartPromwarp(ctx context.Context, program Program, upstream, decoded, results string) (*Process, error) {
	return StartPromwarpBefore(ctx, program, upstream, "--cache.decoded-bytes="+decoded, "--cache.results-bytes="+results)
}

// StartPromwarpOver starts a promwarp over a Prometheus data directory, which answers however large
// the answer is.
func StartPromwarpOver(ctx context.Context, program Program, dir string) (*Process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return start(ctx, "promwarp", place{addr, "/-/ready"}, program,
		"serve", "--tsdb.path="+dir, "--web.listen-address="+addr, "--log.level=warn", "--query.max-samples=2000000000")
}
