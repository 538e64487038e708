//! Plays the script of a reply on a connection, and stops, hangs or cuts the connection where the turn says so.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use super::desk::Desk;
use super::http;
use super::playbook::Turn;
use super::reply::StreamStep;

/// An error means that the connection must be closed: the turn wanted that, or the client has gone.
pub(super) fn play(
    desk: &Desk,
    mut stream: &TcpStream,
    turn: &Turn,
    script: &[StreamStep],
) -> io::Result<()> {
    let headers = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")];
    http::write_chunked_head(&mut stream, 200, &headers)?;
    let mut n_deltas = 0;
    for step in script {
        match step {
            StreamStep::Event(frame) => http::write_chunk(&mut stream, frame.as_bytes())?,
            StreamStep::Delta(frame) => {
                if turn.drop_after.is_some_and(|limit| n_deltas >= limit) {
                    return Err(cut());
                }
                if turn.hang_after == Some(n_deltas) {
                    desk.hang(stream)?;
                }
                http::write_chunk(&mut stream, frame.as_bytes())?;
                n_deltas += 1;
                if turn.delay_ms > 0 {
                    desk.pause(Duration::from_millis(turn.delay_ms))?;
                }
            }
            StreamStep::BeforeTools if turn.tool_calls.is_empty() => {}
            StreamStep::BeforeTools => desk.pause(turn.pace_ms.map_or(desk.pace, Duration::from_millis))?,
            StreamStep::Closing => {
                if turn.hang_after.is_some_and(|limit| n_deltas <= limit) {
                    desk.hang(stream)?;
                }
                if turn.drop_after.is_some_and(|limit| n_deltas <= limit) {
                    return Err(cut());
                }
            }
        }
    }
    http::write_last_chunk(&mut stream)
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the turn ends here")
}
