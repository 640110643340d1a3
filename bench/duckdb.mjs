// Loads samples into a table of DuckDB, sorted by series and time, asks for five minutes of each
// series as often as is said, and prints how long that took, what it took of cores, and totals of the answer.
import { DuckDBInstance } from "@duckdb/node-api";

const [file, rounds, threads] = process.argv.slice(2);
const db = await (await DuckDBInstance.create(":memory:", { threads })).connect();
const began = performance.now();
await db.run(`CREATE TABLE samples AS SELECT series, time::TIMESTAMP_MS AS time, value FROM read_parquet('${file}') ORDER BY series, time`);
const LoadedSeconds = (performance.now() - began) / 1000;
const Milliseconds = [], CPU = [];
for (let i = 0; i < rounds; i++) {
  const began = performance.now(), cpu = process.cpuUsage();
  await db.run(`CREATE OR REPLACE TEMP TABLE answer AS
    SELECT series, time_bucket(INTERVAL 5 MINUTE, time) AS time,
      count(value) AS count, sum(value) AS sum, avg(value) AS mean, min(value) AS min, max(value) AS max
    FROM samples GROUP BY ALL`);
  Milliseconds.push(performance.now() - began);
  const { user, system } = process.cpuUsage(cpu);
  CPU.push((user + system) / 1000);
}
const answer = await db.runAndReadAll(`SELECT count(*)::DOUBLE, sum(count)::DOUBLE, sum(sum), sum(mean), min(min), max(max) FROM answer`);
console.log(JSON.stringify({ Totals: answer.getRowsJson()[0], Milliseconds, CPU, LoadedSeconds }));
