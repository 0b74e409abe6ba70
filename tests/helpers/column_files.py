"""Files of columns as others write them."""

import json

import pyarrow as pa


def save_dataset(folder, rows, classes=None, files=2):
    """Writes rows as `datasets.Dataset.save_to_disk` does.

    Args:
      folder: its path.
      rows: list of dicts.
      classes: column -> names of classes, whose numbers the rows have.
      files: number of Arrow files.
    """
    folder.mkdir(parents=True)
    table, names = pa.Table.from_pylist(rows), []
    size = -(-len(rows) // files)
    for number in range(files):
        names.append(f"data-{number:05}-of-{files:05}.arrow")
        part = table.slice(number * size, size)
        with pa.ipc.new_stream(str(folder / names[-1]), table.schema) as stream:
            stream.write_table(part, max_chunksize=3)
    state = {"_data_files": [{"filename": name} for name in names]}
    (folder / "state.json").write_text(json.dumps(state))
    features = {}
    for name in table.column_names:
        feature = {"dtype": "string", "_type": "Value"}
        if name in (classes or {}):
            feature = {"names": classes[name], "_type": "ClassLabel"}
            if isinstance(rows[0][name], list):
                feature = {"feature": feature, "_type": "List"}
        features[name] = feature
    info = {"features": features}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return folder
