package api

import (
	"net/http"

	promconfig "github.com/prometheus/prometheus/config"

	remoteserve "github.com/promwarp/promwarp/remoteread/serve"
)

// newRead returns the doors for remote read by their paths.
func (a *API) newRead() (map[string]http.Handler, error) {
	plain, err := remoteserve.New(remoteserve.Options{
		Queryable:         a.o.Queryable,
		ExternalLabels:    a.o.ExternalLabels,
		Chunks:            a.o.ReadChunks,
		SampleLimit:       max(a.o.ReadSamples, 0),
		StreamSampleLimit: a.o.ReadStreamSamples,
		MaxQueries:        max(a.o.ReadQueries, 0),
		Limits:            a.o.Limits,
		Queue:             a.o.ReadQueue,
		Client:            a.gate.Client,
		FrameBytes:        a.o.ReadFrameBytes,
		Memory:            a.o.Memory,
		TooLarge:          a.o.Small.TooLarge(),
		Alone:             func() bool { return a.o.ReadQueue.Running() == 1 && len(a.active.Requests()) == 0 },
		Timeout:           a.o.Timeout,
		Logger:            a.logger,
		Registerer:        a.o.Registerer,
	})
	if err != nil {
		return nil, err
	}
	doors := map[string]http.Handler{prefix + "/read": plain}
	for name, reduce := range a.o.ReadReductions {
		doors[prefix+"/read/"+name] = plain.Reducing(reduce)
	}
	return doors, nil
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
