{
  prometheusRules+:: {
    groups+: [{
      name: 'promwarp.rules',
      rules: [
        {
          record: 'job:promwarp_http_requests:rate5m',
          expr: 'sum by (job) (rate(promwarp_http_request_duration_seconds_count{%(selector)s,%(clients)s}[5m]))' % $._config,
        },
        {
          record: 'job:promwarp_http_errors:ratio_rate5m',
          expr: |||
            sum by (job) (rate(promwarp_http_request_duration_seconds_count{%(selector)s,%(clients)s,code=~"5.."}[5m]))
            /
            job:promwarp_http_requests:rate5m{%(selector)s}
          ||| % $._config,
        },
        {
          record: 'job:promwarp_cache_tile_hits:ratio_rate5m',
          expr: |||
            sum by (job) (rate(promwarp_cache_tile_hits_total{%(selector)s}[5m]))
            /
            (
              sum by (job) (rate(promwarp_cache_tile_hits_total{%(selector)s}[5m]))
              +
              sum by (job) (rate(promwarp_cache_tile_misses_total{%(selector)s}[5m]))
            )
          ||| % $._config,
        },
      ],
    }],
  },
}
