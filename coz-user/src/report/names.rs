//! Names made fit to print: clean, and no longer than there is room.

/// The text without control characters, which must not reach a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The last `room` characters, behind an ellipsis where something is left out.
#[must_use]
pub fn tail(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let rest: String = text.chars().skip(length - room.saturating_sub(1)).collect();
    format!("…{rest}")
}

/// The first `room` characters, before an ellipsis where something is left out.
#[must_use]
pub fn head(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let rest: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{rest}…")
}

/// A place in a path: `/home/me/src/app.c:12` becomes `…/src/app.c:12`, as many folders as there is room for.
#[must_use]
pub fn location(text: &str, room: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= room {
        return text;
    }
    text.match_indices('/')
        .map(|(at, _)| &text[at..])
        .find(|rest| rest.chars().count() < room)
        .map_or_else(|| tail(&text, room), |rest| format!("…{rest}"))
}

/// A demangled function: without Rust's hash, then without the parameters, then without what stands between
/// angle brackets, then without its outer modules, until it fits.
#[must_use]
pub fn function(text: &str, room: usize) -> String {
    let mut text = clean(text);
    if let Some((name, hash)) = text.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|b| b.is_ascii_hexdigit())
    {
        text = name.to_owned();
    }
    let fits = |text: &str| text.chars().count() <= room;
    if fits(&text) {
        return text;
    }
    text = without(&text, '(', ')', "()");
    if fits(&text) {
        return text;
    }
    text = without(&text, '<', '>', "<…>");
    while !fits(&text) {
        match text.strip_prefix("…::").unwrap_or(&text).split_once("::") {
            Some((_, inner)) => text = format!("…::{inner}"),
            None => return head(&text, room),
        }
    }
    text
}

/// The text with everything between the outermost `open` and `close` replaced. An `operator<`, an arrow and a
/// pair that is not closed stay as they are; so does a pair at the very start (`<T as Trait>::f`,
/// `(anonymous)::f`).
fn without(text: &str, open: char, close: char, by: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(from) = rest.find(open) {
        let at_start = out.is_empty() && from == 0;
        let is_operator = rest[..from].ends_with("operator") || rest[..from].ends_with("operator<");
        let mut depth = 0_usize;
        let mut before = ' ';
        let end = rest[from..].char_indices().find_map(|(at, c)| {
            if c == open {
                depth += 1;
            } else if c == close && !(c == '>' && before == '-') {
                depth -= 1;
            }
            before = c;
            (depth == 0).then_some(from + at + close.len_utf8())
        });
        match end {
            Some(end) if !at_start && !is_operator => {
                out.push_str(&rest[..from]);
                out.push_str(by);
                rest = &rest[end..];
            }
            Some(end) if at_start => {
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            _ => {
                out.push_str(&rest[..from + open.len_utf8()]);
                rest = &rest[from + open.len_utf8()..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_names_keep_what_tells_them_apart() {
        let cpp = "std::vector<int, std::allocator<int> >::push_back(int const&)";
        assert_eq!(function(cpp, 80), cpp);
        assert_eq!(function(cpp, 55), "std::vector<int, std::allocator<int> >::push_back()");
        assert_eq!(function(cpp, 30), "std::vector<…>::push_back()");
        assert_eq!(function(cpp, 22), "…::push_back()");
        assert_eq!(function("app::jobs::run::h0123456789abcdef", 40), "app::jobs::run");
        assert_eq!(function("ns::operator<<(std::ostream&, ns::T)", 20), "ns::operator<<()");
        assert_eq!(function("a_rather_long_c_function_name", 10), "a_rather_…");
        assert_eq!(location("/home/me/project/src/app.c:12", 16), "…/src/app.c:12");
        assert_eq!(location("app.c:12", 16), "app.c:12");
        assert_eq!(clean("a\u{1b}[31mb\n"), "a [31mb ");
    }

    proptest! {
        #[test]
        fn whatever_the_name_it_fits(text in "[a-z<>(){}:&\\-é ]{0,60}", room in 4_usize..40) {
            prop_assert!(function(&text, room).chars().count() <= room);
            prop_assert!(location(&text, room).chars().count() <= room);
        }
    }
}
