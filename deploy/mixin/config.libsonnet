{
  _config+:: {
    // Matchers of the series that promwarps expose.
    selector: 'job="promwarp"',
    // Of the requests, those of clients: neither scrapes nor probes.
    clients: 'door!~"/metrics|/-/.*"',

    // Shares beyond which alerts fire, 0 to 1.
    errorShare: 0.05,
    upstreamErrorShare: 0.1,

    // What each alert says of where to read what to do.
    runbook: 'https://github.com/promwarp/promwarp/blob/main/docs/failures.md#alerts',

    // Labels of the dashboard.
    dashboardTags: ['promwarp'],
  },
}
