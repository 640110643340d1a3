// Reads an answer as an Arrow table, and prints its rows as JSON.
//
//   npm install
//   node arrow.mjs 'http://localhost:9201/query?metric=up&start=-1d&every=5m&aggregates=count,mean&by=job'
import { tableFromIPC } from "apache-arrow";

const answer = await fetch(process.argv[2], {
  headers: { Accept: "application/vnd.apache.arrow.stream" },
});
if (!answer.ok) {
  throw new Error((await answer.json()).error);
}
const table = await tableFromIPC(answer); // record batches are read as they arrive
for (const row of table) {
  console.log(JSON.stringify(row.toJSON()));
}
