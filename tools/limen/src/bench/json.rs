//! The figures as JSON. `docs/bench.md` documents the format: fields are added, never changed or removed, as
//! long as `format` stays 1.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::{Report, boot, counted, rows, wall};

/// Writes the reports.
pub fn write(reports: &[Report], path: &Path) -> Result<()> {
    let arches: Vec<Value> = reports.iter().map(of_report).collect();
    let all = json!({ "format": 1, "tool": "limen bench", "unit": "instructions", "reports": arches });
    let text = serde_json::to_string_pretty(&all)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn of_report(report: &Report) -> Value {
    let kernels: Vec<Value> = report
        .kernels
        .iter()
        .map(|k| json!({ "name": k.kernel.name, "file": k.kernel.image, "limen": k.kernel.limen }))
        .collect();
    let rows: Vec<Value> = report
        .keys()
        .iter()
        .map(|key| {
            let row = rows::find(&key.0);
            let mut figures = Map::new();
            for measured in &report.kernels {
                if let Some(figure) = measured.figures.rows.get(key) {
                    let value = json!({
                        "per_operation": figure.per_operation(),
                        "operations": figure.operations,
                        "rounds": figure.rounds,
                    });
                    figures.insert(measured.kernel.name.clone(), value);
                }
            }
            json!({
                "name": key.0,
                "what": row.map(|r| r.what),
                "size": row.and_then(|r| r.size).map(|_| key.1),
                "size_unit": row.and_then(|r| r.size),
                "should_be_flat": row.is_some_and(|r| r.flat),
                "figures": figures,
            })
        })
        .collect();
    let mut boots = Vec::new();
    for (name, what, value) in boot::ROWS {
        let mut figures = Map::new();
        for measured in &report.kernels {
            if let Some(v) = value(&measured.boot) {
                figures.insert(measured.kernel.name.clone(), json!(v));
            }
        }
        if !figures.is_empty() {
            boots.push(json!({ "name": name, "what": what, "figures": figures }));
        }
    }
    let mut failed = Vec::new();
    for measured in &report.kernels {
        for (row, why) in &measured.figures.failed {
            failed.push(json!({ "kernel": measured.kernel.name, "row": row, "why": why }));
        }
    }
    let wall = report.wall.as_ref().map(|wall| {
        let rows: Vec<Value> = wall
            .keys()
            .iter()
            .map(|key| {
                let mut figures = Map::new();
                for (name, values) in wall.kernels.iter().zip(&wall.rows[*key]) {
                    figures.insert(
                        name.clone(),
                        json!({ "median": wall::median(values), "runs": values }),
                    );
                }
                let size = rows::find(&key.0).and_then(|r| r.size).map(|_| key.1);
                json!({ "name": key.0, "size": size, "figures": figures })
            })
            .collect();
        let mut boots = Map::new();
        for (name, values) in wall.kernels.iter().zip(&wall.boots) {
            boots.insert(
                name.clone(),
                json!({ "median": wall::median(values), "runs": values }),
            );
        }
        json!({ "unit": "nanoseconds", "rows": rows, "seconds_to_init": boots })
    });
    json!({
        "arch": report.arch.name(),
        "machine": counted::machine(report.arch),
        "cpu": report.cpu,
        "memory_mib": super::MEMORY,
        "kernels": kernels,
        "rows": rows,
        "boot": boots,
        "wall": wall,
        "failed": failed,
    })
}
