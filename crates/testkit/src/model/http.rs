//! HTTP/1.1 messages on a byte stream: reading them, for either end, and writing responses.
//!
//! Framing only: callers interpret the messages. Test peers are trusted, so the limits here exist to turn a
//! runaway peer into an error, not to withstand an attack.
//!
//! Written by hand on `httparse`, because the model misbehaves on purpose: it cuts the connection inside a body, hangs
//! until the client has gone, and sends each delta in a chunk and a packet of its own. `tiny_http` does not expose the
//! socket, gathers chunks in a buffer and ends every body properly. The driver of OpenCode reads its responses with the
//! same code.

use std::io::{self, BufRead, Read, Write};

const MAX_HEAD: u64 = 256 * 1024;
const MAX_BODY: usize = 256 * 1024 * 1024;
const MAX_HEADERS: usize = 128;

/// Header fields in order of arrival, names in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers(pub(crate) Vec<(String, String)>);

impl Headers {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    fn has_token(&self, name: &str, token: &str) -> bool {
        self.get(name).is_some_and(|value| value.to_ascii_lowercase().contains(token))
    }

    fn from_parsed(parsed: &[httparse::Header<'_>]) -> Headers {
        let text = |field: &httparse::Header<'_>| {
            (field.name.to_ascii_lowercase(), String::from_utf8_lossy(field.value).into_owned())
        };
        Headers(parsed.iter().map(text).collect())
    }
}

#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// The path without its query.
    pub(crate) path: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    /// The next request of a connection, or `None` where the peer closed it between two requests.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<HttpRequest>> {
        let head = read_head(reader)?;
        if head.is_empty() {
            return Ok(None);
        }
        let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut fields);
        require_complete(parsed.parse(&head).map_err(malformed)?)?;
        let target = parsed.path.unwrap_or("/");
        let path = target.split_once('?').map_or(target, |(path, _)| path).to_owned();
        let method = parsed.method.unwrap_or("GET").to_owned();
        let headers = Headers::from_parsed(parsed.headers);
        let body = read_body(reader, &headers)?.unwrap_or_default();
        Ok(Some(HttpRequest { method, path, headers, body }))
    }

    pub(crate) fn wants_close(&self) -> bool {
        self.headers.has_token("connection", "close")
    }
}

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    /// The response to a request that asked for the connection to be closed after it.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<HttpResponse> {
        let head = read_head(reader)?;
        let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut fields);
        require_complete(parsed.parse(&head).map_err(malformed)?)?;
        let status = parsed.code.unwrap_or(0);
        let headers = Headers::from_parsed(parsed.headers);
        let body = match read_body(reader, &headers)? {
            Some(body) => body,
            None => {
                let mut rest = Vec::new();
                reader.read_to_end(&mut rest)?;
                rest
            }
        };
        Ok(HttpResponse { status, body })
    }
}

/// Writes a whole response with a known length. `body` is left out for a HEAD request, its length is not.
pub(crate) fn write_response(
    writer: &mut impl Write,
    method: &str,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let length = body.len().to_string();
    let mut message = head(status, headers, ("content-length", &length));
    if method != "HEAD" {
        message.extend_from_slice(body);
    }
    writer.write_all(&message)
}

/// Writes the head of a response whose body follows in chunks.
pub(crate) fn write_chunked_head(
    writer: &mut impl Write,
    status: u16,
    headers: &[(&str, &str)],
) -> io::Result<()> {
    writer.write_all(&head(status, headers, ("transfer-encoding", "chunked")))
}

/// Writes one chunk in one call, so that each reaches the peer on its own.
pub(crate) fn write_chunk(writer: &mut impl Write, data: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    writer.write_all(&chunk)
}

pub(crate) fn write_last_chunk(writer: &mut impl Write) -> io::Result<()> {
    writer.write_all(b"0\r\n\r\n")
}

fn head(status: u16, headers: &[(&str, &str)], framing: (&str, &str)) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers.iter().chain([&framing]) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Clients put the reason into the error messages they store, so it is the usual one.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Payload Too Large",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

/// Everything up to and including the empty line; empty at the end of the stream.
fn read_head(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut limited = reader.by_ref().take(MAX_HEAD);
    loop {
        let line_start = head.len();
        limited.read_until(b'\n', &mut head)?;
        match &head[line_start..] {
            b"\r\n" | b"\n" => return Ok(head),
            line if line.ends_with(b"\n") => {}
            _ if head.is_empty() => return Ok(head),
            _ => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ends inside a head")),
        }
    }
}

/// The body if the head says where it ends.
fn read_body(reader: &mut impl BufRead, headers: &Headers) -> io::Result<Option<Vec<u8>>> {
    if headers.has_token("transfer-encoding", "chunked") {
        return read_chunks(reader).map(Some);
    }
    let Some(length) = headers.get("content-length") else { return Ok(None) };
    let length = length.trim().parse::<usize>().map_err(malformed)?;
    let mut body = Vec::new();
    read_exactly(reader, length, &mut body)?;
    Ok(Some(body))
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(malformed)?;
        if size == 0 {
            // Trailers, if any, up to the empty line.
            while !read_line(reader)?.is_empty() {}
            return Ok(body);
        }
        read_exactly(reader, size, &mut body)?;
        read_line(reader)?;
    }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.by_ref().take(MAX_HEAD).read_line(&mut line)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ends inside a chunked body"));
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_exactly(reader: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    if length > MAX_BODY {
        return Err(malformed("the body is too long"));
    }
    let start = body.len();
    body.resize(start + length, 0);
    reader.read_exact(&mut body[start..])
}

fn require_complete(status: httparse::Status<usize>) -> io::Result<()> {
    if status.is_partial() { Err(malformed("the head is incomplete")) } else { Ok(()) }
}

fn malformed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
