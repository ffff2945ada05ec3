//! Who is answered what. Pure.
//!
//! Everything below a path that only the user knows; nothing to a browser that was told a foreign name for
//! this machine (DNS rebinding), or by anything but `GET`.

use hyper::{Method, StatusCode};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The page.
    Page,
    /// Its data alone.
    Data,
    /// To be told when they change.
    Events,
}

/// The way in.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    token: String,
}

impl Gate {
    /// With a new token: 128 random bits.
    pub(super) fn new() -> Self {
        Self { token: format!("{:032x}", rand::random::<u128>()) }
    }

    /// The page's path: `/TOKEN/`.
    pub(super) fn path(&self) -> String {
        format!("/{}/", self.token)
    }

    /// What a request is answered.
    pub(super) fn ask(&self, method: &Method, host: Option<&str>, path: &str) -> Result<Wanted, StatusCode> {
        if !host.is_some_and(is_here) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        if method != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let (token, rest) =
            path.strip_prefix('/').and_then(|path| path.split_once('/')).ok_or(StatusCode::NOT_FOUND)?;
        if !same(token.as_bytes(), self.token.as_bytes()) {
            return Err(StatusCode::NOT_FOUND);
        }
        match rest {
            "" => Ok(Wanted::Page),
            "data.json" => Ok(Wanted::Data),
            "events" => Ok(Wanted::Events),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }
}

/// Whether a name is one for this machine itself; with any port, for the page may come through a tunnel.
fn is_here(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some(("::1", port)) => ("localhost", port),
        Some(_) => return false,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    is_port && (name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1")
}

/// In a time that does not tell how much of it was right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_its_data_and_nothing_else() {
        let gate = Gate::new();
        let ask =
            |rest: &str| gate.ask(&Method::GET, Some("127.0.0.1:8000"), &format!("{}{rest}", gate.path()));
        assert_eq!(ask(""), Ok(Wanted::Page));
        assert_eq!(ask("data.json"), Ok(Wanted::Data));
        assert_eq!(ask("events"), Ok(Wanted::Events));
        for other in ["x", "../", "data.json/", "..%2f..%2fetc/passwd", "/etc/passwd"] {
            assert_eq!(ask(other), Err(StatusCode::NOT_FOUND), "{other}");
        }
    }

    #[test]
    fn without_the_token_there_is_nothing() {
        let gate = Gate::new();
        assert_eq!(gate.token.len(), 32);
        assert_ne!(gate.token, Gate::new().token, "a new one each time");
        let short = &gate.path()[..gate.path().len() - 2];
        let other = "0".repeat(32);
        for path in
            ["/", "", "/data.json", &format!("{short}/"), &format!("/{other}/"), "//", &gate.path()[..33]]
        {
            assert_eq!(gate.ask(&Method::GET, Some("localhost"), path), Err(StatusCode::NOT_FOUND), "{path}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let gate = Gate::new();
        let ask = |host| gate.ask(&Method::GET, host, &gate.path());
        let here = [
            "localhost",
            "LOCALHOST:1",
            "localhost:65535",
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]",
            "[::1]:8080",
        ];
        for host in here {
            assert_eq!(ask(Some(host)), Ok(Wanted::Page), "{host}");
        }
        let foreign = [
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[::2]",
            "[::1]x",
            "localhost:evil",
            "localhost:80:90",
            "10.0.0.1",
            "[::1",
            "localhost:99999",
        ];
        for host in foreign {
            assert_eq!(ask(Some(host)), Err(StatusCode::MISDIRECTED_REQUEST), "{host}");
        }
        assert_eq!(ask(None), Err(StatusCode::MISDIRECTED_REQUEST));
    }

    #[test]
    fn only_get() {
        let gate = Gate::new();
        for method in [Method::POST, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE] {
            let answer = gate.ask(&method, Some("localhost"), &gate.path());
            assert_eq!(answer, Err(StatusCode::METHOD_NOT_ALLOWED), "{method}");
        }
    }
}
