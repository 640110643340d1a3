local p = import 'panels.libsonnet';

{
  // what the panels select: the promwarps that the dashboard's variables name.
  local of = 'job="$job",instance=~"$instance"',
  local rate(metric, by='', more='') =
    'sum%s (rate(%s{%s%s}[$__rate_interval]))' % [if by == '' then '' else ' by (%s)' % by, metric, of, more],
  local quantile(q, metric, by='', more='') =
    'histogram_quantile(%g, %s)' % [q, rate(metric + '_bucket', std.join(', ', ['le'] + if by == '' then [] else [by]), more)],
  local total(metric, by='') =
    'sum%s (%s{%s})' % [if by == '' then '' else ' by (%s)' % by, metric, of],
  // what the upstream's engine would have taken, less what promwarp took, of all queries by a sample of them.
  local sampled(side) = 'rate(promwarp_compare_evaluation_seconds_sum{%s,side="%s"}[$__rate_interval])' % [of, side],
  local share = 'ignoring (side) (promwarp_compare_sampled_ratio{%s} > 0)' % of,
  local saved = 'sum ((%s - ignoring (side) %s) / (promwarp_compare_sampled_ratio{%s} > 0))' % [sampled('prometheus'), sampled('promwarp'), of],
  local bytesFetched = rate('promwarp_cache_fetched_bytes_total'),
  local bytesHit = rate('promwarp_cache_hit_bytes_total'),
  local evaluated = ',door=~"/api/v1/query|/api/v1/query_range|/query|/explain"',

  local rows = [
    p.row('Overview', [
      p.stat('Requests', 'reqps', [p.query('job:promwarp_http_requests:rate5m{job="$job"}')]),
      p.stat('Failed', 'percentunit', [p.query('job:promwarp_http_errors:ratio_rate5m{job="$job"} or 0 * job:promwarp_http_requests:rate5m{job="$job"}')], 'The share of requests that end with a status of 500 or more.', 1),
      p.stat('From the cache', 'percentunit', [p.query('job:promwarp_cache_tile_hits:ratio_rate5m{job="$job"}')], 'The share of samples, in half hours of a selector, that were in memory when a query asked for them.', 1),
      p.stat('Queries accelerated', 'percentunit', [p.query('%s / %s' % [rate('promwarp_queries_total', more=',accelerated="whole"'), rate('promwarp_queries_total', more=',accelerated!="idle"')])], 'The share of queries that executors evaluated.', 1),
      p.stat('Engine time saved', 'short', [p.query(saved)], "Seconds a second that Prometheus's engine would have evaluated, less promwarp's own. Takes compare.fraction above 0."),
      p.stat('Not fetched', 'Bps', [p.query(bytesHit)], 'Bytes that queries read from the cache.'),
    ], 4),
    p.row('Saved', [
      p.lines('Evaluation, seconds a second', 'short', [
        p.query('sum (%s / %s)' % [sampled('prometheus'), share], "Prometheus's engine would take"),
        p.query('sum (%s / %s)' % [sampled('promwarp'), share], 'promwarp took, fetching included'),
      ], "Of all queries, by the sample that compare.fraction has asked again, ten minutes later: Prometheus's time is its own measurement, promwarp's is what the client waited for. What is skipped counts as nothing."),
      p.lines('Evaluation of a compared query', 's', [
        p.query(quantile(0.5, 'promwarp_compare_evaluation_seconds', 'side'), '{{side}}, half'),
        p.query(quantile(0.99, 'promwarp_compare_evaluation_seconds', 'side'), '{{side}}, 99 %'),
      ], 'Nothing without compare.fraction, and until a query was compared, ten minutes after it.'),
      p.lines('Samples from the cache', 'percentunit', [
        p.query('job:promwarp_cache_tile_hits:ratio_rate5m{job="$job"}', 'of tiles'),
        p.query('%s / (%s + %s)' % [bytesHit, bytesHit, bytesFetched], 'of bytes'),
      ], 'The share of what queries read that was not fetched.'),
      p.lines('Bytes', 'Bps', [p.query(bytesHit, 'not fetched'), p.query(bytesFetched, 'fetched')]),
    ]),
    p.row('Queries', [
      p.lines('Requests by endpoint', 'reqps', [p.query(rate('promwarp_http_request_duration_seconds_count', 'door'), '{{door}}')]),
      p.lines('Requests by status', 'reqps', [p.query(rate('promwarp_http_request_duration_seconds_count', 'code'), '{{code}}')], stacked=true),
      p.lines('Duration of queries', 's', [
        p.query(quantile(0.5, 'promwarp_http_request_duration_seconds', more=evaluated), 'half'),
        p.query(quantile(0.99, 'promwarp_http_request_duration_seconds', more=evaluated), '99 %'),
      ]),
    ]),
    p.row('Evaluation', [
      p.lines('Queries by whether they were accelerated', 'reqps', [p.query(rate('promwarp_queries_total', 'accelerated'), '{{accelerated}}')], stacked=true),
      p.lines("Left to Prometheus's engine", 'ops', [p.query(rate('promwarp_parts_left_total', 'reason'), '{{reason}}')], 'Queries that no executor evaluates, by reason.'),
      p.lines('Expressions by who evaluated them', 'ops', [p.query(rate('promwarp_plan_nodes_total', 'executor'), '{{executor}}')], stacked=true),
      p.lines('Samples', 'short', [
        p.query(rate('promwarp_cpu_samples_decoded_total'), 'decoded'),
        p.query(rate('promwarp_cpu_samples_kept_total'), 'decoded before'),
        p.query(rate('promwarp_gpu_samples_decoded_total'), 'decoded by GPUs'),
      ], 'Samples a second that executors read.'),
    ]),
    p.row('Queues', [
      p.lines('Waiting and running', 'short', [
        p.query(total('promwarp_queue_waiting', 'queue'), '{{queue}}, waiting'),
        p.query(total('promwarp_queue_running', 'queue'), '{{queue}}, running'),
      ]),
      p.lines('Wait of 99 %', 's', [p.query(quantile(0.99, 'promwarp_queue_wait_seconds', 'queue'), '{{queue}}')]),
      p.lines('Refused', 'reqps', [p.query(rate('promwarp_queue_rejected_total', 'queue, reason'), '{{queue}}, {{reason}}')]),
    ]),
    p.row('Cache', [
      p.lines('Tiles', 'ops', [
        p.query(rate('promwarp_cache_tile_hits_total'), 'in memory'),
        p.query(rate('promwarp_cache_tile_misses_total'), 'not in memory'),
        p.query(rate('promwarp_cache_evicted_tiles_total'), 'evicted'),
        p.query(rate('promwarp_cache_refused_tiles_total'), 'fetched and not kept'),
      ], 'A tile is half an hour of one selector.'),
      p.lines('Memory', 'bytes', [
        p.query(total('promwarp_cache_bytes'), 'samples'),
        p.query(total('promwarp_cache_limit_bytes'), 'limit'),
        p.query(total('promwarp_results_bytes'), 'results'),
      ]),
      p.lines('Disk', 'bytes', [
        p.query(total('promwarp_cache_disk_bytes'), 'files'),
        p.query(total('promwarp_cache_disk_limit_bytes'), 'limit'),
      ], 'With cache.path.'),
    ]),
    p.row('Upstreams', [
      p.lines('Remote reads', 'reqps', [p.query(rate('promwarp_remote_read_requests_total', 'upstream, outcome'), '{{upstream}}, {{outcome}}')], stacked=true),
      p.lines('Received', 'Bps', [p.query(rate('promwarp_remote_read_received_bytes_total', 'upstream'), '{{upstream}}')]),
      p.lines('Duration', 's', [
        p.query(quantile(0.5, 'promwarp_remote_read_request_duration_seconds', 'upstream'), '{{upstream}}, half'),
        p.query(quantile(0.99, 'promwarp_remote_read_request_duration_seconds', 'upstream'), '{{upstream}}, 99 %'),
      ]),
    ]),
    p.row('Memory', [
      p.lines('By part', 'bytes', [p.query(total('promwarp_memory_bytes', 'part'), '{{part}}')], stacked=true),
      p.lines('Limit and resident', 'bytes', [
        p.query(total('promwarp_memory_limit_bytes'), 'limit'),
        p.query(total('process_resident_memory_bytes'), 'resident, mapped files too'),
      ]),
      p.lines('Short of memory', 'short', [
        p.query(rate('promwarp_memory_refused_total', 'part'), 'refused: {{part}}'),
        p.query('%s / 1e6' % rate('promwarp_memory_reclaimed_bytes_total'), 'MB that the cache gave'),
      ], 'A second.'),
    ]),
    p.row('Cores and GPUs', [
      p.lines('Cores', 'short', [p.query(rate('process_cpu_seconds_total', 'instance'), '{{instance}}')], 'Cores in use.'),
      p.lines('Windows on GPUs', 'ops', [p.query(rate('promwarp_gpu_jobs_total', 'instance, gpu'), '{{instance}}, GPU {{gpu}}')], 'Nothing without a GPU.'),
      p.lines('Windows left to the cores', 'ops', [p.query(rate('promwarp_gpu_declined_total', 'reason'), '{{reason}}')], 'By the reason, which may be that there is no GPU.'),
      p.lines('Time on GPUs', 'percentunit', [p.query(rate('promwarp_gpu_seconds_total', 'stage'), '{{stage}}')], 'Seconds a second by stage; the stages of a job run beside each other. Nothing without a GPU.'),
    ]),
    p.row('Remote readers', [
      p.lines('Requests', 'reqps', [p.query(rate('promwarp_read_requests_total', 'form, outcome'), '{{form}}, {{outcome}}')]),
      p.lines('Sent', 'Bps', [p.query(rate('promwarp_read_bytes_total'), 'bytes')]),
    ]),
  ],

  local variable(name, label, metric, multi) = {
    name: name,
    label: label,
    type: 'query',
    datasource: { type: 'prometheus', uid: '${datasource}' },
    query: { query: metric, refId: name },
    refresh: 2,
    sort: 1,
    multi: multi,
    includeAll: multi,
    [if multi then 'current']: { selected: true, text: 'All', value: '$__all' },
  },

  grafanaDashboards+:: {
    'promwarp.json': {
      uid: 'promwarp',
      title: 'promwarp',
      tags: $._config.dashboardTags,
      schemaVersion: 39,
      editable: true,
      graphTooltip: 1,
      refresh: '30s',
      time: { from: 'now-1h', to: 'now' },
      timezone: 'browser',
      templating: { list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', refresh: 1 },
        variable('job', 'Job', 'label_values(promwarp_build_info{%s}, job)' % $._config.selector, false),
        variable('instance', 'Instance', 'label_values(promwarp_build_info{job="$job"}, instance)', true),
      ] },
      panels: p.place(rows),
    },
  },
}
