// Panels of Grafana dashboards, placed from left to right in rows.
{
  local datasource = { type: 'prometheus', uid: '${datasource}' },

  // One query of a panel; legend is a template of labels.
  query(expr, legend=''):: { expr: expr, legendFormat: legend },

  local panel(kind, title, description, unit, queries) = {
    type: kind,
    title: title,
    description: description,
    datasource: datasource,
    targets: [
      queries[i] { refId: std.char(65 + i), datasource: datasource, range: true }
      for i in std.range(0, std.length(queries) - 1)
    ],
    fieldConfig: { defaults: { unit: unit, min: 0 }, overrides: [] },
  },

  // The newest value, large.
  stat(title, unit, queries, description='', max=null):: panel('stat', title, description, unit, queries) {
    fieldConfig+: { defaults+: { [if max != null then 'max']: max } },
    options: {
      colorMode: 'none',
      graphMode: 'area',
      justifyMode: 'auto',
      orientation: 'auto',
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      textMode: 'auto',
    },
  },

  // Lines over time; stacked ones are filled.
  lines(title, unit, queries, description='', stacked=false):: panel('timeseries', title, description, unit, queries) {
    fieldConfig+: { defaults+: { custom: {
      drawStyle: 'line',
      lineWidth: 1,
      fillOpacity: if stacked then 60 else 10,
      showPoints: 'never',
      stacking: { group: 'A', mode: if stacked then 'normal' else 'none' },
    } } },
    options: {
      legend: { calcs: [], displayMode: 'list', placement: 'bottom', showLegend: true },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
  },

  row(title, panels, height=7):: { title: title, panels: panels, height: height },

  // place gives rows and their panels ids and positions.
  place(rows):: std.foldl(
    function(done, row)
      local n = std.length(row.panels);
      local width = 24 / n;
      assert width == std.floor(width) : 'row %s has %d panels, by which 24 columns cannot be divided' % [row.title, n];
      local header = {
        type: 'row',
        id: done.id,
        title: row.title,
        collapsed: false,
        panels: [],
        gridPos: { x: 0, y: done.y, w: 24, h: 1 },
      };
      {
        id: done.id + 1 + n,
        y: done.y + 1 + row.height,
        panels: done.panels + [header] + [
          row.panels[i] { id: done.id + 1 + i, gridPos: { x: i * width, y: done.y + 1, w: width, h: row.height } }
          for i in std.range(0, n - 1)
        ],
      },
    rows,
    { id: 1, y: 0, panels: [] },
  ).panels,
}
