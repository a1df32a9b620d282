"""The page of results, ``models/README.md``: tables, what is ahead of what, what each choice brings, the run log."""

from pathlib import Path
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.contrast import kept_table
from contradiction.io.templates import render
from contradiction.reports import run_log, standings
from contradiction.reports.ablation import REFERENCE, ablation
from contradiction.reports.comparisons import leads


def results_page(folder: str | Path = results.FOLDER) -> str:
    """The page of results, made from the kept evaluations."""
    kept = [each for each in results.kept(folder) if each.get("kind") in results.KINDS]
    found = [each for each in kept if each["kind"] == "detector"]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in found:
        groups.setdefault((each["config"], each["split"]), []).append(each)
    tables = [
        results.score_table(
            results.best_first([*ones, *results.baselines(config, split, folder, ones[0]["data"])]),
            f"{config}, {split} split (n = {ones[0]['metrics']['n']:,})",
        )
        for (config, split), ones in sorted(groups.items(), key=_order)
    ]
    return render(
        "results.md",
        picture=standings.NAME if standings.standings(folder) else None,
        tables=tables,
        classes=[results.class_table(each) for each in found],
        leads={config: ahead for config in ("4-class", "4-class-grouped") if (ahead := leads(kept, config))},
        ablations={split: beside for split in ("validation", "test") if (beside := ablation(found, split))},
        notes={each["name"]: each["run"]["note"] for each in found if (each.get("run") or {}).get("note")},
        runs=results.run_table(found),
        log=run_log.table(found),
        collapsed=run_log.COLLAPSED,
        baselines=results.baseline_table(folder),
        contrast=kept_table(folder),
        reference=REFERENCE,
        resamples=results.RESAMPLES,
    )


def _order(group: tuple[tuple[str, str], Any]) -> tuple[bool, bool, str]:
    """Test before validation, and official before grouped splits."""
    (config, split), _ = group
    return split != "test", config.endswith("grouped"), config
