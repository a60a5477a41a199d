//! What was timed, as a line, as JSON, and as a page to look at: bars of the ratio to the best peer, and every workload below the device's roofline.
use cleave::core::device::DeviceModel;
use serde_json::{Value, json};
use std::fmt::{self, Write};

/// One workload.
pub struct Row {
    pub workload: String,
    /// Operations and bytes, as [`Workload`](super::Workload) counts them.
    pub flop: f64,
    pub bytes: f64,
    /// Of the plan of a first call, and of the best candidate that was timed.
    pub ms: f64,
    pub tuned_ms: Option<f64>,
    pub algorithm: String,
    pub split: u32,
}

impl Row {
    fn gflops(&self) -> f64 {
        self.flop / self.ms / 1e6
    }
    fn gbps(&self) -> f64 {
        self.bytes / self.ms / 1e6
    }
    pub fn json(&self) -> Value {
        let rounded = |x: f64, parts: f64| (x * parts).round() / parts;
        let mut row = json!({"workload": self.workload, "ms": rounded(self.ms, 1e5), "gflops": rounded(self.gflops(), 10.0), "gbps": rounded(self.gbps(), 100.0),
            "algorithm": self.algorithm, "split": self.split});
        if let Some(ms) = self.tuned_ms {
            row["tuned_ms"] = json!(rounded(ms, 1e5))
        }
        row
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{:48} {:>13} {:10.1} GFLOP/s {:8.1} GB/s  {}, split {}",
            self.workload,
            if self.ms < 0.01 { format!("{:.3} us", self.ms * 1e3) } else { format!("{:.4} ms", self.ms) },
            self.gflops(),
            self.gbps(),
            self.algorithm,
            self.split
        )?;
        self.tuned_ms.map_or(Ok(()), |ms| write!(f, "; tuned {ms:.4} ms"))
    }
}

/// How many times the best candidate's time the first call's plan takes: the median and the worst.
pub fn choice(rows: &[Row]) -> Option<(f64, f64)> {
    let mut ratios: Vec<f64> = rows.iter().filter_map(|r| Some(r.ms / r.tuned_ms?)).collect();
    ratios.sort_by(f64::total_cmp);
    Some((*ratios.get(ratios.len() / 2)?, *ratios.last()?))
}

/// What else was timed on the machine.
pub struct Peer {
    pub workload: String,
    pub name: String,
    pub ms: f64,
}

/// The lines of a peers' script; those of failures, and what is no JSON, are passed over.
pub fn peers(text: &str) -> Vec<Peer> {
    let peer = |line: &str| {
        let row: Value = serde_json::from_str(line).ok()?;
        Some(Peer { workload: row["workload"].as_str()?.into(), name: row["peer"].as_str()?.into(), ms: row["ms"].as_f64()? })
    };
    text.lines().filter_map(peer).collect()
}

fn best<'a>(peers: &'a [Peer], workload: &str) -> Option<&'a Peer> {
    peers.iter().filter(|p| p.workload == workload).min_by(|a, b| a.ms.total_cmp(&b.ms))
}

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:1000px;color:#222;background:#fff}h1,h2{font-weight:600}\
svg{width:100%;height:auto}text{font:11px system-ui,sans-serif;fill:#333}table{border-collapse:collapse;font-size:12px}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #eee}\
td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}.fast{fill:#2a7f62}.slow{fill:#c26a2d}.ours{fill:#2a7f62;fill-opacity:.8}.roof{stroke:#888;fill:none}.one{stroke:#222;stroke-dasharray:3 3}";

/// A page that stands alone: no script, no other file.
pub fn page(rows: &[Row], peers: &[Peer], device: &DeviceModel) -> String {
    let mut out = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Cleave on {0}</title><style>{STYLE}</style><h1>Cleave on {0}</h1>",
        escaped(&device.name)
    );
    if rows.iter().any(|r| best(peers, &r.workload).is_some()) {
        out += "<h2>Times as fast as the best peer</h2>";
        out += &bars(rows, peers)
    }
    out += "<h2>Roofline</h2><p>Operations of the formula as written over the bytes that must move at least once. Above the roof: an algorithm with fewer operations.</p>";
    out += &roofline(rows, device);
    out += "<h2>All workloads</h2><table><tr><th>workload<th>us<th>GFLOP/s<th>GB/s<th>best peer, us<th>ratio<th>algorithm";
    for r in rows {
        let peer = best(peers, &r.workload).map_or(String::from("<td><td>"), |p| format!("<td>{} {:.1}<td>{:.2}", escaped(&p.name), p.ms * 1e3, p.ms / r.ms));
        // writing to a string cannot fail
        let _ = write!(
            out,
            "<tr><td>{}<td>{:.1}<td>{:.1}<td>{:.1}{peer}<td>{}, split {}",
            escaped(&r.workload),
            r.ms * 1e3,
            r.gflops(),
            r.gbps(),
            escaped(&r.algorithm),
            r.split
        );
    }
    out + "</table></html>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn bars(rows: &[Row], peers: &[Peer]) -> String {
    let compared: Vec<(&Row, &Peer, f64)> = rows.iter().filter_map(|r| best(peers, &r.workload).map(|p| (r, p, p.ms / r.ms))).collect();
    // twice as fast is as far from one as half as fast
    let (left, width, line) = (330.0, 620.0, 18.0);
    let x = |ratio: f64| left + width * ((ratio.log2() + 2.0) / 4.0).clamp(0.0, 1.0);
    let height = line * compared.len() as f64 + 30.0;
    let mut out = format!("<svg viewBox='0 0 1000 {height}'>");
    for tick in [0.25, 0.5, 1.0, 2.0, 4.0] {
        let class = if tick == 1.0 { "one" } else { "roof" };
        let _ =
            write!(out, "<line class={class} x1={0} x2={0} y1=18 y2={height} stroke-opacity=.5 /><text x={0} y=12 text-anchor=middle>{tick}</text>", x(tick));
    }
    for (i, (row, peer, ratio)) in compared.iter().enumerate() {
        let y = 22.0 + line * i as f64;
        let (from, to) = (x(ratio.min(1.0)), x(ratio.max(1.0)));
        let class = if *ratio >= 1.0 { "fast" } else { "slow" };
        let _ = write!(
            out,
            "<text x={} y={} text-anchor=end>{}</text><rect class={class} x={from} y={y} width={} height=13><title>{:.2} x {}</title></rect><text x={} y={}>{ratio:.2}</text>",
            left - 8.0,
            y + 11.0,
            escaped(&row.workload),
            (to - from).max(1.0),
            ratio,
            escaped(&peer.name),
            to + 4.0,
            y + 11.0
        );
    }
    out + "</svg>"
}

fn roofline(rows: &[Row], device: &DeviceModel) -> String {
    let points: Vec<(&Row, f64, f64)> = rows.iter().filter(|r| r.flop > 0.0 && r.bytes > 0.0).map(|r| (r, r.flop / r.bytes, r.gflops())).collect();
    let (bandwidth, peak) = (device.bandwidth / 1e9, device.half_flops.max(device.single_flops) / 1e9);
    // whole decades around all that is drawn
    let decades = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v.log10().floor()), b.max(v.log10().ceil())))
    };
    let ridge = peak / bandwidth;
    let (x0, x1) = decades(&mut points.iter().map(|p| p.1).chain([1.0, ridge * 2.0]));
    let (y0, y1) = decades(&mut points.iter().map(|p| p.2).chain([peak]));
    let x = |v: f64| 60.0 + 900.0 * (v.log10() - x0) / (x1 - x0);
    let y = |v: f64| 410.0 - 390.0 * (v.log10() - y0) / (y1 - y0);
    let mut out = String::from("<svg viewBox='0 0 1000 450'>");
    for decade in x0 as i32..=x1 as i32 {
        let at = x(10f64.powi(decade));
        let _ = write!(
            out,
            "<line class=roof stroke-opacity=.2 x1={at} x2={at} y1=20 y2=410 /><text x={at} y=425 text-anchor=middle>{}</text>",
            10f64.powi(decade)
        );
    }
    for decade in y0 as i32..=y1 as i32 {
        let at = y(10f64.powi(decade));
        let _ = write!(
            out,
            "<line class=roof stroke-opacity=.2 x1=60 x2=960 y1={at} y2={at} /><text x=55 y={} text-anchor=end>{}</text>",
            at + 4.0,
            10f64.powi(decade)
        );
    }
    let low = (10f64.powf(y0) / bandwidth).max(10f64.powf(x0));
    let _ = write!(
        out,
        "<polyline class=roof stroke-width=2 points='{},{} {},{} {},{}' /><text x=510 y=445 text-anchor=middle>FLOP per byte</text><text x=64 y=15>GFLOP/s</text>",
        x(low),
        y(low * bandwidth),
        x(ridge),
        y(peak),
        960,
        y(peak)
    );
    for (row, intensity, rate) in points {
        let _ = write!(
            out,
            "<circle class=ours cx={:.1} cy={:.1} r=4><title>{}: {:.0} GFLOP/s</title></circle>",
            x(intensity),
            y(rate),
            escaped(&row.workload),
            rate
        );
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &str, ms: f64) -> Row {
        Row { workload: workload.into(), flop: 2e9, bytes: 1e6, ms, tuned_ms: Some(0.5), algorithm: "source <1>".into(), split: 1 }
    }

    #[test]
    fn a_page_names_every_workload_with_its_ratio_to_the_best_peer() {
        let text = "noise\n{\"workload\": \"a\", \"peer\": \"slow\", \"ms\": 8.0}\n{\"workload\": \"a\", \"peer\": \"fast\", \"ms\": 3.0}\n{\"workload\": \"a\", \"peer\": \"broken\", \"error\": \"no\"}\n";
        let peers = peers(text);
        assert_eq!(peers.len(), 2);
        let page = page(&[row("a", 2.0), row("b & c", 1.0)], &peers, cleave::Device::cpu().model());
        assert!(page.contains("<td>fast 3000.0<td>1.50") && page.contains("b &amp; c") && page.contains("source &lt;1>"), "{page}");
        assert!(!page.contains("NaN") && !page.contains("inf"))
    }

    #[test]
    fn the_choice_is_judged_by_its_median_and_its_worst() {
        assert_eq!(choice(&[row("a", 0.5), row("b", 0.6), row("c", 1.0)]), Some((1.2, 2.0)));
        assert_eq!(choice(&[]), None)
    }
}
