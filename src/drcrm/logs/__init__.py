"""Users' own logs: read and check them, learn and judge policies, write reports, and serve policies.

A column of a CSV file, such as the propensity, takes these steps to the log that policies are learned from:

1. ``readers.csv_files.CsvReader.read_tables`` reads the file as Arrow tables of texts.
2. ``readers.tables.TableReader.read_frames`` selects the columns that a mapping names, as frames with decimal points.
3. ``readers.frames.frame_batch`` converts the columns to numbers, in a ``Batch`` of features and rows.
4. ``batches.join_batches`` joins the batches into a ``BanditLog``. The column is now its attribute ``propensity``.
5. ``batches.encode`` returns selected rows with encoded features: rows that train policies, and held-out rows.

For the commands, ``decisions.opened_log.open_log`` calls these functions. For the library, ``read_log`` does.
"""
