//! A running `opencode serve` and its HTTP API.

use std::fs;
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Lab;
use super::cli::create;
use super::process::Process;
use crate::model::http::HttpResponse;

/// A server with its process. Dropping it kills both at once.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// Host and port.
    address: String,
    timeout: Duration,
    log: PathBuf,
}

/// The server's response to a request.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Lab {
    /// Starts `opencode serve` in the directory `cwd`, and waits until it answers.
    ///
    /// # Panics
    /// If it does not within the lab's timeout.
    pub fn serve(&self, cwd: &Path) -> Server {
        let [_, log, errors] = self.streams();
        // With port 0 it chooses a port and says which. Looking for a free one beforehand would be a race
        // between tests that run at the same time.
        let mut command = self.command(cwd, &["serve", "--hostname", "127.0.0.1", "--port", "0"]);
        command.stdin(Stdio::null()).stdout(create(&log)).stderr(create(&errors));
        let mut process = Process::spawn(&mut command);
        let deadline = Instant::now() + self.timeout;
        let address = loop {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if let Some(address) = announced_address(&text) {
                break address;
            }
            let ended = process.wait(Duration::ZERO);
            if ended.is_some() || Instant::now() >= deadline {
                let errors = fs::read_to_string(&errors).unwrap_or_default();
                panic!("`opencode serve` does not come up ({ended:?})\nstdout: {text}\nstderr: {errors}");
            }
            thread::sleep(Duration::from_millis(10));
        };
        let server = Server { process, address, timeout: self.timeout, log };
        // The first request loads the project, which is part of starting.
        server.get("/config");
        server
    }
}

impl Server {
    /// The root of the API, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The id of the process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The output of the process.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends one request.
    ///
    /// # Panics
    /// If no answer comes.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        self.exchange(method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}\nlog: {}", self.log()))
    }

    /// The JSON a path answers. This and the following panic if the answer is an error.
    pub fn get(&self, path: &str) -> Value {
        self.json("GET", path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.json("POST", path, Some(body))
    }

    pub fn patch(&self, path: &str, body: &Value) -> Value {
        self.json("PATCH", path, Some(body))
    }

    pub fn delete(&self, path: &str) -> Value {
        self.json("DELETE", path, None)
    }

    /// Ends the server in an orderly way. Unfinished work is lost, so wait until the model server is idle first.
    pub fn stop(self) {
        self.process.terminate(Duration::from_secs(20));
    }

    /// Kills the server and all its descendants in the middle of what they do.
    pub fn kill(mut self) {
        self.process.kill();
    }

    fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let response = self.request(method, path, body);
        let text = String::from_utf8_lossy(&response.body);
        assert!(response.status < 400, "{method} {path}: HTTP {}: {text}", response.status);
        if text.trim().is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}"))
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Response> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(self.timeout))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut message =
            format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        if !body.is_empty() {
            message
                .push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        message.push_str("\r\n");
        message.push_str(&body);
        stream.write_all(message.as_bytes())?;
        let response = HttpResponse::read(&mut BufReader::new(stream))?;
        Ok(Response { status: response.status, body: response.body })
    }
}

/// The address in `opencode server listening on http://127.0.0.1:4096`, once the line is complete.
fn announced_address(log: &str) -> Option<String> {
    let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let address = complete.lines().find_map(|line| line.split_once("listening on http://"))?.1;
    Some(address.trim().to_owned())
}
