{
  local alert(name, wait, severity, expr, summary, description) = {
    alert: name,
    expr: expr % $._config,
    [if wait != '' then 'for']: wait,
    labels: { severity: severity },
    annotations: { summary: summary, description: description, runbook_url: $._config.runbook },
  },

  prometheusAlerts+:: {
    groups+: [{
      name: 'promwarp',
      rules: [
        alert(
          'PromwarpDown', '5m', 'critical',
          'up{%(selector)s} == 0',
          'A promwarp cannot be scraped.',
          '{{ $labels.instance }} has not answered for 5 minutes. Dashboards that ask it show nothing; the Prometheus behind it still answers.',
        ),
        alert(
          'PromwarpReloadFailed', '10m', 'warning',
          'promwarp_config_last_reload_successful{%(selector)s} == 0',
          'A promwarp runs on old settings.',
          'The last reload of {{ $labels.instance }} failed, so it goes on with the settings from before. Its log names the line or the setting at fault.',
        ),
        alert(
          'PromwarpPanics', '', 'warning',
          'increase(promwarp_http_panics_total{%(selector)s}[15m]) > 0',
          'Requests panic.',
          '{{ $value | printf "%.0f" }} requests to {{ $labels.instance }} ended in a panic in the last 15 minutes. Its log has the stacks; please report them.',
        ),
        alert(
          'PromwarpErrors', '10m', 'warning',
          'job:promwarp_http_errors:ratio_rate5m{%(selector)s} > %(errorShare)g',
          'Requests fail.',
          '{{ $value | humanizePercentage }} of the requests to {{ $labels.job }} fail with a status of 500 or more: 502 is the upstream, 503 time, the queue or memory, 500 promwarp itself.',
        ),
        alert(
          'PromwarpOverloaded', '10m', 'warning',
          'sum by (job, instance, queue) (rate(promwarp_queue_rejected_total{%(selector)s,reason!="gone"}[5m])) > 0',
          'Requests are refused because too many wait.',
          '{{ $labels.instance }} refuses {{ $value | printf "%.2f" }} requests a second of its queue "{{ $labels.queue }}". If its cores are idle raise query.max_concurrency, otherwise it needs more cores or fewer clients.',
        ),
        alert(
          'PromwarpUpstreamFails', '5m', 'critical',
          |||
            sum by (job, instance, upstream) (rate(promwarp_remote_read_requests_total{%(selector)s,outcome!~"ok|canceled"}[5m]))
            /
            sum by (job, instance, upstream) (rate(promwarp_remote_read_requests_total{%(selector)s}[5m]))
            > %(upstreamErrorShare)g
          |||,
          'Remote reads of an upstream fail.',
          '{{ $value | humanizePercentage }} of the remote reads that {{ $labels.instance }} sends to {{ $labels.upstream }} fail. What is cached is still answered; the rest is an error.',
        ),
        alert(
          'PromwarpPartialAnswers', '5m', 'warning',
          'sum by (job, instance, upstream) (rate(promwarp_partial_selections_total{%(selector)s}[5m])) > 0',
          'Answers lack an upstream.',
          '{{ $labels.instance }} answers queries without {{ $labels.upstream }}, which fails and has on_failure: warn. The answers have a warning.',
        ),
        alert(
          'PromwarpMemoryRefused', '', 'warning',
          'sum by (job, instance, part) (increase(promwarp_memory_refused_total{%(selector)s}[15m])) > 0',
          'Requests are refused for want of memory.',
          '{{ $labels.instance }} refused memory for {{ $labels.part }} {{ $value | printf "%.0f" }} times in the last 15 minutes. Raise memory.limit, or lower query.max_concurrency.',
        ),
        alert(
          'PromwarpCacheGivesWay', '6h', 'info',
          'rate(promwarp_memory_reclaimed_bytes_total{%(selector)s}[30m]) > 0',
          'The cache shrinks for requests all the time.',
          'The cache of {{ $labels.instance }} has given memory to requests for 6 hours: cache.host_bytes is too large for memory.limit.',
        ),
        alert(
          'PromwarpCacheTooSmall', '6h', 'info',
          'sum by (job, instance) (rate(promwarp_cache_refused_tiles_total{%(selector)s}[30m])) > 0',
          'The cache has no room for what is fetched.',
          '{{ $labels.instance }} has fetched samples for 6 hours that found no room in its memory. Raise cache.host_bytes, or have them fetched again for each query.',
        ),
        alert(
          'PromwarpDiskCacheFails', '10m', 'warning',
          'promwarp_cache_disk_failing{%(selector)s} == 1',
          'The cache is not written to disk.',
          '{{ $labels.instance }} cannot write to cache.path. Its cache goes on in memory, and is lost at a restart. Its log says why.',
        ),
        alert(
          'PromwarpDiskCacheDamaged', '', 'warning',
          'increase(promwarp_cache_disk_bad_files_total{%(selector)s}[1h]) > 0',
          'Files of the cache were damaged.',
          '{{ $labels.instance }} removed {{ $value | printf "%.0f" }} damaged files from cache.path in the last hour, and fetches their samples again. Look at the disk.',
        ),
        alert(
          'PromwarpAnswersDiffer', '', 'warning',
          'sum by (job, instance) (increase(promwarp_compare_queries_total{%(selector)s,verdict="different"}[1h])) > 0',
          "An answer is not Prometheus's.",
          '{{ $labels.instance }} answered {{ $value | printf "%.0f" }} queries of the last hour otherwise than Prometheus. Its log has each query and the first difference; please report them.',
        ),
        alert(
          'PromwarpGPUUnusable', '10m', 'warning',
          'promwarp_gpu_usable{%(selector)s} == 0',
          'A GPU is not used.',
          'GPU {{ $labels.gpu }} of {{ $labels.instance }} has failed for 10 minutes; the cores evaluate in its place. If the log says that it is lost, restart promwarp.',
        ),
      ],
    }],
  },
}
