//! The name of a home: the argument of `--home`, and the form in which a store keeps the homes it follows.
//!
//! A name is parsed once. Nothing here looks at the disk or asks for the current directory: a relative path stays relative
//! until [`HomeUrl::resolved`] gets the directory it is relative to.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The name of a home. Displayed in the form that `--home` takes, except that passwords are masked.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HomeUrl {
    /// A file or directory: a path, or a `file:` URL.
    Path(PathBuf),
    /// A store in a PostgreSQL database. Reserved: nothing opens it yet.
    Postgres(PostgresUrl),
    /// A Claude Code directory. Reserved: nothing opens it yet.
    ClaudeCode(PathBuf),
    /// A Codex directory. Reserved: nothing opens it yet.
    Codex(PathBuf),
    /// Several homes read as one. No text parses to this.
    Several(Vec<HomeUrl>),
}

/// The address of a PostgreSQL database, which may contain a password.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PostgresUrl(String);

/// Why a text is not the name of a home.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HomeUrlError {
    /// The text begins with an unknown scheme.
    #[error(
        "unknown scheme {scheme:?} in {shown}; homes are paths, `file:` URLs, and later `postgres:`, `claude-code:` and `codex:`"
    )]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// The text, with passwords masked.
        shown: String,
    },
}

impl HomeUrl {
    /// Parses a name that a person typed.
    ///
    /// The rest of a `file:` URL is the path, without percent-decoding. A colon alone does not make an unknown scheme,
    /// because file names may contain one; `://` does.
    pub fn parse(text: &str) -> Result<HomeUrl, HomeUrlError> {
        let Some((scheme, rest)) = split_scheme(text) else { return Ok(HomeUrl::Path(PathBuf::from(text))) };
        let path = || PathBuf::from(rest.strip_prefix("//").unwrap_or(rest));
        match Scheme::of(scheme) {
            Some(Scheme::File) => Ok(HomeUrl::Path(without_root_before_drive(path()))),
            Some(Scheme::Postgres) => Ok(HomeUrl::Postgres(PostgresUrl(text.to_owned()))),
            Some(Scheme::ClaudeCode) => Ok(HomeUrl::ClaudeCode(path())),
            Some(Scheme::Codex) => Ok(HomeUrl::Codex(path())),
            None if rest.starts_with("//") => {
                Err(HomeUrlError::UnknownScheme { scheme: scheme.to_owned(), shown: masked(text) })
            }
            None => Ok(HomeUrl::Path(PathBuf::from(text))),
        }
    }

    /// The name that a store has kept. It was valid when it was stored, so a text that does not parse is a path.
    pub fn of_stored(text: &str) -> HomeUrl {
        HomeUrl::parse(text).unwrap_or_else(|_| HomeUrl::Path(PathBuf::from(text)))
    }

    /// The name of several homes that are read as one.
    pub fn several(mut homes: Vec<HomeUrl>) -> HomeUrl {
        match homes.len() {
            1 => homes.swap_remove(0),
            _ => HomeUrl::Several(homes),
        }
    }

    /// The path of the home, if a path names it.
    pub fn path(&self) -> Option<&Path> {
        match self {
            HomeUrl::Path(path) => Some(path),
            _ => None,
        }
    }

    /// The name with relative paths taken as relative to `directory`.
    #[must_use]
    pub fn resolved(&self, directory: &Path) -> HomeUrl {
        match self {
            HomeUrl::Path(path) => HomeUrl::Path(directory.join(path)),
            HomeUrl::ClaudeCode(path) => HomeUrl::ClaudeCode(joined(directory, path)),
            HomeUrl::Codex(path) => HomeUrl::Codex(joined(directory, path)),
            HomeUrl::Postgres(url) => HomeUrl::Postgres(url.clone()),
            HomeUrl::Several(homes) => {
                HomeUrl::Several(homes.iter().map(|home| home.resolved(directory)).collect())
            }
        }
    }
}

impl PostgresUrl {
    /// The address with its password, for connecting. Never show it.
    pub fn with_password(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HomeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HomeUrl::Path(path) => {
                // A path that looks like a URL would be parsed as one.
                let is_mistakable = path.to_str().is_some_and(|text| {
                    split_scheme(text).is_some() && HomeUrl::parse(text).as_ref() != Ok(self)
                });
                write!(f, "{}{}", if is_mistakable { "./" } else { "" }, path.display())
            }
            HomeUrl::Postgres(url) => url.fmt(f),
            HomeUrl::ClaudeCode(path) => write!(f, "claude-code:{}", path.display()),
            HomeUrl::Codex(path) => write!(f, "codex:{}", path.display()),
            HomeUrl::Several(homes) => {
                for (index, home) in homes.iter().enumerate() {
                    write!(f, "{}{home}", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for HomeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A derived `Debug` would show passwords.
        write!(f, "{:?}", self.to_string())
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl FromStr for HomeUrl {
    type Err = HomeUrlError;

    fn from_str(text: &str) -> Result<HomeUrl, HomeUrlError> {
        HomeUrl::parse(text)
    }
}

impl From<&Path> for HomeUrl {
    fn from(path: &Path) -> HomeUrl {
        HomeUrl::Path(path.to_owned())
    }
}

impl From<PathBuf> for HomeUrl {
    fn from(path: PathBuf) -> HomeUrl {
        HomeUrl::Path(path)
    }
}

/// A value that names a home to open: a [`HomeUrl`], a path, or a text that is parsed.
pub trait NamesHome {
    /// The name.
    fn home_url(&self) -> Result<Cow<'_, HomeUrl>, HomeUrlError>;
}

impl NamesHome for HomeUrl {
    fn home_url(&self) -> Result<Cow<'_, HomeUrl>, HomeUrlError> {
        Ok(Cow::Borrowed(self))
    }
}

impl NamesHome for str {
    fn home_url(&self) -> Result<Cow<'_, HomeUrl>, HomeUrlError> {
        HomeUrl::parse(self).map(Cow::Owned)
    }
}

impl NamesHome for String {
    fn home_url(&self) -> Result<Cow<'_, HomeUrl>, HomeUrlError> {
        self.as_str().home_url()
    }
}

impl NamesHome for Path {
    fn home_url(&self) -> Result<Cow<'_, HomeUrl>, HomeUrlError> {
        Ok(Cow::Owned(HomeUrl::from(self)))
    }
}

impl NamesHome for PathBuf {
    fn home_url(&self) -> Result<Cow<'_, HomeUrl>, HomeUrlError> {
        self.as_path().home_url()
    }
}

/// The schemes of home names.
enum Scheme {
    File,
    Postgres,
    ClaudeCode,
    Codex,
}

impl Scheme {
    fn of(text: &str) -> Option<Scheme> {
        match &*text.to_ascii_lowercase() {
            "file" => Some(Scheme::File),
            "postgres" | "postgresql" => Some(Scheme::Postgres),
            "claude-code" => Some(Scheme::ClaudeCode),
            "codex" => Some(Scheme::Codex),
            _ => None,
        }
    }
}

/// The scheme of a text and the rest after its colon. One letter is not a scheme but the drive of a path: `C:\x`.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme.then_some((scheme, rest))
}

/// A path such as that of `file:///C:/x` without the leading slash, which is part of the URL only.
fn without_root_before_drive(path: PathBuf) -> PathBuf {
    if !cfg!(windows) {
        return path;
    }
    let is_drive =
        |rest: &str| rest.as_bytes().get(1) == Some(&b':') && rest.as_bytes()[0].is_ascii_alphabetic();
    match path.to_str().and_then(|text| text.strip_prefix('/')).filter(|rest| is_drive(rest)) {
        Some(rest) => PathBuf::from(rest),
        None => path,
    }
}

/// `path` relative to `directory`; an empty path stays empty.
fn joined(directory: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::new() } else { directory.join(path) }
}

/// A URL with its passwords masked: the one before the host, and those among the parameters. A password may contain
/// characters that a URL should have encoded, so everything up to the last `@` counts as password: too much is masked rather
/// than too little.
fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':') else { return url.to_owned() };
    let (slashes, rest) = match rest.strip_prefix("//") {
        Some(rest) => ("//", rest),
        None => ("", rest),
    };
    let (user, host) = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _password)) => (format!("{user}:***@"), host),
            None => (format!("{user}@"), host),
        },
        None => (String::new(), rest),
    };
    let host = match host.split_once('?') {
        Some((host, parameters)) => {
            let parameters: Vec<Cow<'_, str>> = parameters.split('&').map(masked_parameter).collect();
            format!("{host}?{}", parameters.join("&"))
        }
        None => host.to_owned(),
    };
    format!("{scheme}:{slashes}{user}{host}")
}

/// `password=…` and `sslpassword=…` without the password.
fn masked_parameter(parameter: &str) -> Cow<'_, str> {
    match parameter.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().ends_with("password") => format!("{name}=***").into(),
        _ => parameter.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> HomeUrl {
        HomeUrl::Path(PathBuf::from(text))
    }

    #[test]
    fn texts_are_parsed_and_shown() {
        let check = |text: &str, expected: HomeUrl, shown: &str| {
            let url = HomeUrl::parse(text).unwrap();
            assert_eq!(url, expected, "{text}");
            assert_eq!(url.to_string(), shown, "{text}");
            assert_eq!(format!("{url:?}"), format!("{shown:?}"));
            if !shown.contains("***") {
                assert_eq!(HomeUrl::parse(shown).as_ref(), Ok(&url), "{text}");
            }
        };
        check("/home/me/opencode", path("/home/me/opencode"), "/home/me/opencode");
        check("opencode.db", path("opencode.db"), "opencode.db");
        check("../a b/ü?#%20", path("../a b/ü?#%20"), "../a b/ü?#%20");
        check(".", path("."), ".");
        check(r"C:\Users\me", path(r"C:\Users\me"), r"C:\Users\me");
        check("c:/Users/me", path("c:/Users/me"), "c:/Users/me");
        check(r"\\?\C:\x", path(r"\\?\C:\x"), r"\\?\C:\x");
        check("/a/s3://x", path("/a/s3://x"), "/a/s3://x");
        check("notes:today", path("notes:today"), "notes:today");
        check("./codex:x", path("./codex:x"), "./codex:x");
        check("file:/a/b", path("/a/b"), "/a/b");
        check("file:///a/b", path("/a/b"), "/a/b");
        check("FILE:///a%20b", path("/a%20b"), "/a%20b");
        check("file://a/b", path("a/b"), "a/b");
        check("codex:/x", HomeUrl::Codex("/x".into()), "codex:/x");
        check("codex:///x", HomeUrl::Codex("/x".into()), "codex:/x");
        check("claude-code:", HomeUrl::ClaudeCode("".into()), "claude-code:");
        let postgres = |text: &str| HomeUrl::Postgres(PostgresUrl(text.to_owned()));
        for (text, shown) in [
            ("postgres://host/db", "postgres://host/db"),
            ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("postgres://me:secret@host:5432/db", "postgres://me:***@host:5432/db"),
            ("postgres://me:se/cr@e:t?@host/db", "postgres://me:***@host/db"),
            ("postgres://host/db?user=me&password=secret", "postgres://host/db?user=me&password=***"),
            ("postgres://host/db?sslPassword=secret&x", "postgres://host/db?sslPassword=***&x"),
        ] {
            check(text, postgres(text), shown);
            assert!(!shown.contains("secret"));
        }
    }

    #[test]
    fn an_unknown_scheme_is_refused() {
        let error = |text: &str| HomeUrl::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("s3://x"),
            "unknown scheme \"s3\" in s3://x; homes are paths, `file:` URLs, and later `postgres:`, `claude-code:` and `codex:`"
        );
        assert!(error("mysql://me:secret@host/db").contains("in mysql://me:***@host/db;"));
        assert_eq!(HomeUrl::of_stored("s3://x").path(), Some(Path::new("s3://x")));
    }

    #[test]
    fn a_path_that_looks_like_a_url_is_shown_so_that_it_is_none() {
        let url = HomeUrl::from(Path::new("codex:x"));
        assert_eq!(url.to_string(), "./codex:x");
        assert_eq!(HomeUrl::from(Path::new("s3://x")).to_string(), "./s3://x");
    }

    #[test]
    fn relative_paths_are_resolved_where_the_caller_says() {
        let check = |text: &str, expected: &str| {
            let resolved = HomeUrl::parse(text).unwrap().resolved(Path::new("/here"));
            assert_eq!(resolved, HomeUrl::parse(expected).unwrap(), "{text}");
        };
        check("a.db", "/here/a.db");
        check("/a.db", "/a.db");
        check("codex:a", "codex:/here/a");
        check("codex:", "codex:");
        check("postgres://a", "postgres://a");
    }

    #[test]
    fn several_homes_are_shown_with_commas() {
        let urls = vec![path("/a"), path("/b")];
        assert_eq!(HomeUrl::several(urls).to_string(), "/a, /b");
        assert_eq!(HomeUrl::several(vec![path("/a")]), path("/a"));
    }
}
