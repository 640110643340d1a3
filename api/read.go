package api

import (
	"net/http"

	promconfig "github.com/prometheus/prometheus/config"

	remoteserve "github.com/promwarp/promwarp/remoteread/serve"
)

// newRead returns the door for remote read.
func (a *API) newRead() (http.Handler, error) {
	return remoteserve.New(remoteserve.Options{
		Queryable:         a.o.Queryable,
		ExternalLabels:    a.o.ExternalLabels,
		Chunks:            a.o.ReadChunks,
		SampleLimit:       max(a.o.ReadSamples, 0),
		StreamSampleLimit: a.o.ReadStreamSamples,
		MaxQueries:        max(a.o.ReadQueries, 0),
		CheckRegexps:      a.o.Limits.CheckRegexps,
		Queue:             a.o.ReadQueue,
		Client:            a.gate.Client,
		FrameBytes:        a.o.ReadFrameBytes,
		Memory:            a.o.Memory,
		Timeout:           a.o.Timeout,
		Logger:            a.logger,
		Registerer:        a.o.Registerer,
	})
}

// config is the configuration that /api/v1/status/config shows, with the external labels
// that remote read adds to series.
func (a *API) config() promconfig.Config {
	c := a.o.Config()
	if a.o.ExternalLabels != nil {
		c.GlobalConfig.ExternalLabels = a.o.ExternalLabels()
	}
	return c
}
