"""Reads an answer as CSV into a pandas DataFrame, and prints its rows as JSON.

    apt-get install python3-pandas
    python3 frame.py 'http://localhost:9201/query?metric=up&start=-1d&every=5m&aggregates=count,mean&by=job'

With pyarrow, pyarrow.ipc.open_stream(...).read_pandas() reads an Arrow answer, and pandas.read_parquet
a Parquet file.
"""
import sys
import urllib.request

import pandas

request = urllib.request.Request(sys.argv[1], headers={"Accept": "text/csv"})
with urllib.request.urlopen(request) as answer:
    frame = pandas.read_csv(answer, float_precision="round_trip")
frame["time"] = pandas.to_datetime(frame.pop("timestamp"), unit="s", utc=True)
sys.stdout.write(frame.to_json(orient="records", lines=True, date_unit="ms", double_precision=15))
