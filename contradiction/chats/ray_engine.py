"""Judges a folder of Parquet files on Ray Data, on one machine or a cluster: part by part, into a folder of Parquet."""

import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints
from uuid import uuid4

from contradiction.chats.chunks import Tally, judge_chunk, split_chunks
from contradiction.chats.detection import Detection, Usage
from contradiction.chats.readers import open_parquet
from contradiction.chats.writers import continues
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError, first_line
from contradiction.io.environment import check_installed, usable_cores
from contradiction.io.files import locked, new_file, write_json
from contradiction.methods.llm_judge import total_usage
from contradiction.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow

OBJECT_STORE = 10**8  # bytes; only small results go through it


@contextmanager
def cluster(address: str | None = None, cpus: int | None = None) -> Iterator[None]:
    """Joins a cluster, or starts Ray on this machine, where it listens on loopback alone.

    Args:
        address: the address of the cluster; by default Ray is started here, and ends with the block.
        cpus: how many tasks of one core run at the same time here; by default one for each core that this process may
            use.

    Raises:
        InputError: there is no such cluster, or the work that is done in the block is stopped by Ray.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "ERROR")
    if address is None:
        # Despite its name, the variable is read on Linux too: Ray then listens on loopback, and looks up no address.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_worker_niceness", "0")  # the priority of this process, and not the lowest
    import ray

    local = {"num_cpus": cpus or usable_cores(), "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    try:
        ray.init(**({"address": address} if address else local), logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # Ray has no class of its own for what can fail here, for instance on a busy machine
        where = f"--address {address}" if address else "Ray on this machine"
        raise InputError(f"{where}: cannot be reached ({first_line(error)})") from None
    try:
        with redirect_stdout(sys.stderr):  # Ray prints a message about each killed worker
            yield
    except ray.exceptions.RayError as error:
        raise InputError(f"--engine ray: stopped ({first_line(error)}); --resume continues") from error
    finally:
        ray.shutdown()


PART_ROWS = 4096  # under a minute on one core; a killed process loses at most one part
REQUEST = "_request.json"  # readers of Parquet folders skip names that begin with _
TALLY = b"cdconv_tally"


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a file, which are judged together and written to a file of their own.

    Attributes:
        number: the number of the part in the whole folder.
        file: the name of the file in the folder.
        first: the number of its first row, from 1.
        last: the number of its last row.
    """

    number: int
    file: str
    first: int
    last: int

    @property
    def output(self) -> str:
        """The name of the file with its verdicts."""
        return f"part-{self.number:06}.parquet"


def parts_of(folder: Path) -> list[Part]:
    """The parts of a folder of Parquet files, which depend on the names of the files and their rows alone.

    Raises:
        InputError: there is no such folder, no Parquet file in it, or one without a chat in each row.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder; --engine ray reads a folder of Parquet files")
    parts: list[Part] = []
    for file in sorted(folder.rglob("*.parquet")):
        rows = open_parquet(file).total or 0
        open_parquet(file, range(1, rows + 1))  # refuses messages or turns in rows, which a part cannot put together
        for first in range(1, rows + 1, PART_ROWS):
            name = file.relative_to(folder).as_posix()
            parts.append(Part(len(parts), name, first, min(first + PART_ROWS - 1, rows)))
    if not parts:
        raise InputError(f"{folder}: holds no rows of Parquet (*.parquet); without --engine ray one file is read")
    return parts


def digest_of(folder: Path, parts: Iterable[Part]) -> str:
    """A digest of the names, the sizes and the rows of the files; a run is continued only with the same digest."""
    files = {part.file: part.last for part in parts}
    listed = [(name, (folder / name).stat().st_size, rows) for name, rows in files.items()]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def judge_folder(
    detection: Detection,
    folder: Path,
    out: Path,
    *,
    resume: bool = False,
    address: str | None = None,
    on_parts: Callable[[int, int], Any] | None = None,
) -> tuple[Tally, Usage]:
    """Judges all chats of a folder of Parquet files.

    Each part becomes one file, under a temporary name until it is complete. So a run that is started again after a kill
    judges only the parts that have no file yet. A worker that is killed is replaced, and its part is judged again.

    Args:
        detection: what is judged with. Each worker has one core, or a GPU if the device is ``cuda``.
        folder: the folder; on a cluster every machine must see it under this name, and ``out`` and the model as well.
        out: the folder to write.
        resume: continues the run that wrote ``out``.
        address: the address of a cluster; by default Ray is started here for this run.
        on_parts: called with the number of finished parts and of all parts, after each part.

    Returns:
        The counts of all parts, also of those of an earlier run, and what a judge used in this run.

    Raises:
        InputError: Ray is not installed, there is no such cluster or GPU, ``out`` belongs to another run or lies in the
            folder, or a part cannot be judged.
    """
    check_installed("--engine ray", {"ray": "ray"})
    if out.is_file():
        raise InputError(f"--out {out}: is a file; --engine ray writes a folder")
    if out.resolve().is_relative_to(folder.resolve()):  # a continued run would take it for input
        raise InputError(f"--out {out}: lies in {folder}; name a folder outside of it")
    parts = parts_of(folder)
    request = detection.request(digest_of(folder, parts))
    # Workers have a working folder of their own.
    model = str(Path(detection.model).resolve()) if Path(detection.model).is_dir() else detection.model
    gpu = detection.device == "cuda"
    detection = replace(detection, model=model, device="cuda" if gpu else "cpu")
    used: dict[str, Usage] = {}  # by each worker up to its last part, for it judges one at a time
    with locked(out):
        continues(out, out / REQUEST, lambda: request, resume)
        todo = [part for part in parts if not (out / part.output).is_file()]
        if todo:
            # Before a file is written and Ray starts. Here there may be no GPU, and a CPU does not compute in fp16.
            precision = "fp32" if detection.precision == "fp16" else detection.precision
            trial = replace(detection, device="cpu", precision=precision)
            trial.load().check_judges_replies()
            with cluster(address, detection.workers):
                size = _pool_size(len(todo), detection.workers, gpu)
                write_json(out / REQUEST, request)
                results = _run((detection, folder.resolve(), out.resolve()), todo, size, gpu)
                for done, result in enumerate(results, len(parts) - len(todo) + 1):
                    if result["error"]:
                        raise InputError(result["error"])
                    used[result["worker"]] = json.loads(result["usage"])
                    if on_parts:
                        on_parts(done, len(parts))
        for leftover in out.glob(".*.partial"):  # by workers that were killed
            leftover.unlink()
        return _count(out, parts), total_usage(used.values())


def _pool_size(parts: int, workers: int | None, gpu: bool) -> int:
    """The number of workers; raises InputError if they need a GPU and there is none."""
    import ray

    resources = ray.cluster_resources()
    if not gpu:
        return max(1, min(workers or int(resources.get("CPU", 1)), parts))
    gpus = int(resources.get("GPU", 0))
    if not gpus:
        raise InputError("--device cuda: Ray finds no GPU; --device cpu runs without one")
    return min(workers or gpus, gpus, parts)  # Ray would wait forever for more GPUs than there are


def _run(arguments: tuple[Any, ...], parts: list[Part], size: int, gpu: bool) -> Iterator[dict[str, str]]:
    """Judges parts; yields the result of each. ``arguments`` are those of :class:`_Worker`."""
    import ray

    ray.data.DataContext.get_current().enable_progress_bars = False
    items = ray.data.from_items([asdict(part) for part in parts], override_num_blocks=len(parts))
    results = items.map(
        _Worker,  # type: ignore[arg-type]  # a class is called with each row
        fn_constructor_args=arguments,
        # One part at a time, so that none waits behind a chat of many turns while other workers are idle.
        compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
        num_cpus=1,
        num_gpus=1 if gpu else 0,
    )
    yield from results.iter_rows()


class _Worker:
    """Judges parts in a process of Ray."""

    def __init__(self, detection: Detection, folder: Path, out: Path) -> None:
        self._detection, self._folder, self._out, self._name = detection, folder, out, uuid4().hex
        self._detector: ContradictionDetector | None = None  # loaded with the first part, so that its error is a result

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        """Judges a part and writes its verdicts; returns its error or an empty text, and all that a judge used here."""
        error, usage = "", None
        try:
            self._detector = self._detector or self._detection.load()
            self._write(Part(**row), self._detector)
            usage = self._detector.classifier.usage()
        except InputError as problem:
            error = str(problem)
        return {"error": error, "worker": self._name, "usage": json.dumps(usage)}

    def _write(self, part: Part, detector: ContradictionDetector) -> None:
        """Judges the rows of a part and writes them as one Parquet file, completely or not at all."""
        import pyarrow
        from pyarrow import parquet

        chats = open_parquet(self._folder / part.file, range(part.first, part.last + 1), self._detection.speakers)
        rows: list[dict[str, Any]] = []
        tally = Tally()
        scan, batch_size = self._detection.scan, self._detection.batch_size
        for entries in split_chunks(chats, scan):
            chunk = judge_chunk(detector, entries, chats.key, scan=scan, batch_size=batch_size)
            tally.add(chunk.records, len(chunk.rejected))
            for record in [*chunk.records, *chunk.rejected]:
                name = record.get("id")
                named = {"file": part.file, "row": record[chats.key], "id": None if name is None else str(name)}
                verdicts = record.get("verdicts", [record])  # of a chat that was scanned, one for each reply
                rows += [{**verdict, **named} for verdict in verdicts]
        rows.sort(key=lambda row: row["row"])
        metadata = {TALLY: json.dumps(asdict(tally)).encode()}
        table = pyarrow.Table.from_pylist(rows, _schema().with_metadata(metadata))
        with new_file(self._out / part.output) as partial:
            parquet.write_table(table, partial)


def _schema() -> "pyarrow.Schema":
    """The columns of the output: the fields of a verdict, and ``error`` for a row that holds no chat."""
    import pyarrow as pa

    verdict = {name: _arrow_type(hint) for name, hint in get_type_hints(Verdict).items()}
    return pa.schema({"file": pa.string(), "row": pa.int64(), "id": pa.string(), **verdict, "error": pa.string()})


def _arrow_type(hint: Any) -> "pyarrow.DataType":
    """The type of a column that holds the values of a field of a dataclass."""
    import pyarrow as pa

    plain = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), int: pa.int32()}
    if hint in plain:
        return plain[hint]
    if is_dataclass(hint):
        return pa.struct([(name, _arrow_type(of)) for name, of in get_type_hints(hint).items()])
    parts = [_arrow_type(part) for part in get_args(hint) if part not in (NoneType, ...)]
    made = {tuple: pa.list_, Mapping: pa.map_}.get(get_origin(hint))
    return made(*parts) if made else parts[0]  # of a field that may also be None


def _count(out: Path, parts: Iterable[Part]) -> Tally:
    """The sum of the counts in the files of the parts."""
    from pyarrow import parquet

    total = Tally()
    for part in parts:
        written = parquet.read_schema(out / part.output).metadata or {}
        for name, value in json.loads(written[TALLY]).items():
            setattr(total, name, getattr(total, name) + value)
    return total
