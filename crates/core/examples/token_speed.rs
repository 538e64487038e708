//! How fast texts become tokens, and how long a snippet takes: `cargo run --release --example token_speed -- FILE...`

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::time::Instant;

use annals_core::search::{TokenCursor, query, snippet};

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let (mut count, mut bytes, mut best) = (0, 0, f64::INFINITY);
        for _ in 0..10 {
            (count, bytes) = (0, 0);
            let start = Instant::now();
            let mut tokens = TokenCursor::new(&text);
            while tokens.advance() {
                count += 1;
                bytes += tokens.token().text.len();
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        let speed = text.len() as f64 / best / 1e6;
        println!("{path}: {speed:.0} MB/s, {count} tokens with {bytes} bytes in {} bytes", text.len());
        let terms = query::parse("error the \"not found\" pars* getUserName").expect("a query").highlights();
        let start = Instant::now();
        let found = snippet(&text, &terms, 200);
        println!("  snippet with {} hits in {:.1} ms", found.hits, start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}
