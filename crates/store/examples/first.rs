//! The first program of the documentation: `cargo run -p annals --example first -- [PATH]`.
//!
//! PATH is `annals.db` unless it is given; a home of OpenCode's is as good, and its OpenCode can go on with the session.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "annals.db".into());
    let store = annals::Store::open(path)?;
    for session in store.sessions().limit(10) {
        println!("{}", session?.title());
    }
    let session = store.create_session("/home/me/shop").title("Fix the empty cart").save()?;
    session.prompt("The cart crashes when it is empty.").model("anthropic/claude-sonnet-4-5").save()?;
    for hit in store.search("cart crash")? {
        println!("{}", hit?.snippet());
    }
    Ok(())
}
