// Reads an answer as a Parquet file into DuckDB, asks it SQL, and prints the rows as JSON. The table
// is called answer.
//
//   npm install
//   node duckdb.mjs 'http://localhost:9201/query?metric=up&start=-1d&every=5m&aggregates=count,mean&by=job' \
//     'SELECT job, time_bucket(INTERVAL 1 HOUR, time) AS hour, avg(mean) FROM answer GROUP BY ALL ORDER BY ALL'
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";

const [url, sql = "SELECT * FROM answer"] = process.argv.slice(2);
const answer = await fetch(url, { headers: { Accept: "application/vnd.apache.parquet" } });
if (!answer.ok) {
  throw new Error((await answer.json()).error);
}
const folder = await mkdtemp(join(tmpdir(), "answer-"));
try {
  const file = join(folder, "answer.parquet");
  await writeFile(file, answer.body);
  const db = await (await DuckDBInstance.create()).connect();
  await db.run(`CREATE VIEW answer AS SELECT * FROM read_parquet('${file}')`);
  for (const row of (await db.runAndReadAll(sql)).getRowObjectsJson()) {
    console.log(JSON.stringify(row));
  }
} finally {
  await rm(folder, { recursive: true });
}
