"""Makes the files that are read, and what must come of them, by plain SQL over the generated rows.

    python -m benchmarks.reading.files FOLDER COUNT ROWS

Row `i` of all files together is row `i` of the target `orders` of that size, but for one amount in BAD_STEP that is
none and one key in as many that is missing. Knows nothing of `lakehouse`, so that the expected results are independent
of it.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generate import BAD_AMOUNTS, session
from benchmarks.rows import old_rows
from benchmarks.workload import NEW_DAY, Target

BAD_STEP = 10_000
_BAD_AMOUNT, _NO_KEY = (f"seq % {BAD_STEP} = {n}" for n in (77, 4321))
_PART = "part-%06d.csv"


@dataclass(frozen=True, slots=True)
class Files:
    """`count` CSV files of `rows` records each, all of one landing date, below `landing`."""

    count: int
    rows: int

    @property
    def target(self) -> Target:
        """A table of as many rows: it names the columns, the declaration and the landing folder."""
        return Target("orders", self.count * self.rows)

    @property
    def day_folder(self) -> str:
        """The folder of the landing date, relative to that of the target."""
        return f"landing_date={NEW_DAY}"

    @property
    def accepted(self) -> str:
        """SQL of the rows that must be staged, with `_source_line`, `_source_date` and the name of their `file`."""
        return f"""select {", ".join(self.target.columns)}, seq % {self.rows} + 2 as _source_line,
                date '{NEW_DAY}' as _source_date, printf('{_PART}', seq // {self.rows}) as file
            from ({self._rows}) where not ({_BAD_AMOUNT}) and not ({_NO_KEY})"""

    @property
    def rejected(self) -> str:
        """SQL of the records that must be rejects: `file`, `line_number`, `column_name` and `raw`."""
        raw = ", ".join(_as_written(column) for column in self.target.columns)
        return f"""select printf('{_PART}', seq // {self.rows}) as file, seq % {self.rows} + 2 as line_number,
                case when {_NO_KEY} then 'order_id' else 'amount' end as column_name, concat_ws(',', {raw}) as raw
            from ({self._rows}) where {_BAD_AMOUNT} or {_NO_KEY}"""

    @property
    def _rows(self) -> str:
        return old_rows(self.target, f"range(0, {self.target.rows}) r(i)")

    def write(self, folder: Path) -> None:
        """Write the files into `folder`, which is there afterwards and holds nothing else."""
        folder.mkdir(parents=True)
        columns = ", ".join(_texts(column) for column in self.target.columns)
        whole = folder / "all"
        with closing(session()) as con:
            con.execute(f"copy (select {columns} from ({self._rows})) to '{whole}' (format csv, header true)")
        if self.count == 1:
            whole.rename(folder / (_PART % 0))
            return
        with whole.open("rb") as lines:
            header = lines.readline()
            for number in range(self.count):
                data = b"".join(lines.readline() for _ in range(self.rows))
                (folder / (_PART % number)).write_bytes(header + data)
        whole.unlink()


def _texts(column: str) -> str:
    """SQL of a column as the file has it."""
    if column == "order_id":
        return f"case when {_NO_KEY} then null else order_id end as order_id"
    if column == "amount":
        bad = f"{list(BAD_AMOUNTS)}[1 + seq // {BAD_STEP} % {len(BAD_AMOUNTS)}]"
        return f"case when {_BAD_AMOUNT} then {bad} else amount::varchar end as amount"
    return column


def _as_written(column: str) -> str:
    """SQL of a field of a bad record, character by character: only an amount with a comma is quoted."""
    value = _texts(column).removesuffix(f" as {column}")
    if column == "amount":
        return f"case when contains({value}, ',') then '\"' || ({value}) || '\"' else {value} end"
    return f"coalesce(({value})::varchar, '')"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading.files", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int, help="files")
    parser.add_argument("rows", type=int, help="records of each")
    options = parser.parse_args()
    files = Files(options.count, options.rows)
    files.write(options.folder)


if __name__ == "__main__":
    main()
