//! `report --html`: the page, one file that stands alone. Pure: from the report to its text.
//!
//! The script is written as ES modules (`page/*.js`, which tests load as such) and put together here: one module, since
//! a page opened from disk cannot import others. Data go in as JSON in an element that is never executed, and come out
//! by `textContent` alone. The content security policy names the hash of the one script and the one style, so that
//! nothing else runs whatever a name in a profile says.

mod data;
mod excerpts;

pub use data::{Page, Served};

use sha2::{Digest, Sha256};

const TEMPLATE: &str = include_str!("page/page.html");
pub(super) const STYLE: &str = include_str!("page/style.css");

/// The modules, each after those that it imports.
const MODULES: [&str; 12] = [
    include_str!("page/words.js"),
    include_str!("page/model.js"),
    include_str!("page/dom.js"),
    include_str!("page/curve.js"),
    include_str!("page/overview.js"),
    include_str!("page/source.js"),
    include_str!("page/answer.js"),
    include_str!("page/health.js"),
    include_str!("page/theme.js"),
    include_str!("page/list.js"),
    include_str!("page/detail.js"),
    include_str!("page/main.js"),
];

/// The page for these data ([`Page::json`]).
#[must_use]
pub fn text(data: &str, served: Served) -> String {
    let script = script();
    let connect = if served == Served::Yes { "'self'" } else { "'none'" };
    let policy = policy(&script, connect);
    // What is put in is not looked at again: data may hold the name of a place.
    let mut parts = Vec::new();
    let mut rest = TEMPLATE;
    let data = embedded(data);
    for (place, by) in
        [("{{policy}}", policy.as_str()), ("{{style}}", STYLE), ("{{data}}", &data), ("{{script}}", &script)]
    {
        // Every place is in the template: a test reads what comes out.
        let Some((before, after)) = rest.split_once(place) else { continue };
        parts.extend([before, by]);
        rest = after;
    }
    parts.push(rest);
    parts.concat()
}

/// All modules as one.
fn script() -> String {
    let lines = MODULES.iter().flat_map(|module| module.lines());
    let mut script = String::from("\n");
    for line in lines.filter(|line| !line.starts_with("import ")) {
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script
}

/// What the page may load and run: itself.
fn policy(script: &str, connect: &str) -> String {
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src {connect}; base-uri 'none'; \
         form-action 'none'",
        digest(script),
        digest(STYLE)
    )
}

/// What a content security policy calls this text.
pub(super) fn digest(text: &str) -> String {
    base64(&Sha256::digest(text))
}

/// JSON that no browser takes for the end of its element, or for a comment's begin, or for the end of a line.
fn embedded(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests;
